"""`rl`: looks at the first word, imports what that command needs and no more, and turns errors into lines."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

from rl_lightning.cli import help as texts
from rl_lightning.cli.commands import COMMANDS, ELSEWHERE
from rl_lightning.cli.flags import normalize
from rl_lightning.cli.process import quiet
from rl_lightning.errors import ConfigError, ResumeError, RLError
from rl_lightning.version import version


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = normalize(list(sys.argv[1:] if argv is None else argv))
    debug = "--debug" in words
    _show_everything()
    try:
        with quiet():
            return dispatch(words)
    except RLError as error:
        _report(error, debug)
        return error.exit_code
    except KeyboardInterrupt:
        print("\nstopped by Ctrl-C", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `rl list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except MemoryError:
        print(
            "error: out of memory. Fewer envs, a smaller buffer or batch, or `capacity: auto` help",
            file=sys.stderr,
        )
        return 1
    except Exception as error:
        error = _of_the_disk(error) or error
        _report(error, debug)
        return getattr(error, "exit_code", 1)


def _of_the_disk(error: Exception) -> RLError | None:
    """What a file system refuses is no bug of ours."""
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResumeError(
            "the disk is full; whole checkpoints are intact. Free some space and type: rl resume RUN"
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename:
        return ConfigError(f"{error.filename}: {error.strerror}; RL_LOGS names another folder for runs")
    return None


def _show_everything() -> None:
    """A terminal or file that knows no `·` shows `?`: output must never end a run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def dispatch(words: list[str]) -> int:
    command = words[0] if words else "--help"
    if command in ("-h", "--help", "help"):
        named = len(words) > 1 and words[1] in COMMANDS
        print(texts.command(words[1], words[2:]) if named else texts.overview())
        return 0
    if command in ("-V", "--version", "version"):
        print(f"rl_lightning {version()}")
        return 0
    if command not in COMMANDS:
        from rl_lightning.runs.store.names import did_you_mean

        meant = ELSEWHERE.get(command)
        hint = did_you_mean(command, COMMANDS) or f"; one of: {', '.join(COMMANDS)}"
        hint = f"; did you mean '{meant}'?" if meant else hint
        raise ConfigError(f"rl has no command '{command}'{hint}")
    if {"-h", "--help"} & set(words[1:]):
        print(texts.command(command, words[1:]))
        return 0
    module, function = COMMANDS[command].split(":")
    return int(getattr(importlib.import_module(module), function)(words[1:]))


def _report(error: Exception, debug: bool) -> None:
    if debug and not isinstance(error, ConfigError):  # what was typed is wrong, not the code
        traceback.print_exception(error)
    if isinstance(error, RLError):
        lines = str(error).strip().splitlines() or [type(error).__name__]
        print("\n".join([f"error: {lines[0]}", *(f"       {line}" for line in lines[1:3])]), file=sys.stderr)
        return
    first = (str(error).strip().splitlines() or [""])[0][:300]
    print(f"error: unexpected {type(error).__name__}: {first}", file=sys.stderr)
    if not debug:
        print(
            "       this should not happen; the same command with --debug shows where it did", file=sys.stderr
        )
