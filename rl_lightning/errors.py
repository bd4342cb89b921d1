"""The errors a user can cause or meet. Each carries the exit code of the `rl` command."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_from_config: ContextVar[bool] = ContextVar("from_config", default=False)


class RLError(Exception):
    """Base of all errors that are reported in one to three lines instead of a traceback."""

    exit_code = 1


class ConfigError(RLError):
    """A wrong option, class, name or combination of them."""

    exit_code = 2


class DataError(RLError):
    """A data set or file that is missing, misshapen or damaged."""

    exit_code = 3


class ResumeError(RLError):
    """A checkpoint that is missing, damaged, hostile or of another run."""

    exit_code = 4


class DivergedError(RLError):
    """Training produced a number that is not finite."""

    exit_code = 5


class EnvError(RLError):
    """An environment raised, died or returned what it must not."""

    exit_code = 6


class StageError(RLError):
    """A stage of a pipeline failed; the earlier artifacts are kept."""

    exit_code = 1


@contextmanager
def made_from_config() -> Iterator[None]:
    """Inside, constructors are called for a config: their errors name its keys, model.gamma."""
    token = _from_config.set(True)
    try:
        yield
    finally:
        _from_config.reset(token)


def name_arguments(error: RLError, arguments: Collection[str], *groups: str) -> None:
    """Makes a constructor's error name its arguments, gamma, where it was called in Python and not for a config.

    Args:
        error: Raised in the constructor, with keys as a config spells them.
        arguments: Of the constructor; other keys stay what they are.
        groups: Where they stand in a config, e.g. "model".
    """
    if _from_config.get() or not error.args:
        return
    keys = re.compile(rf"(?<![\w./-])(?:{'|'.join(groups)})\.([a-z_]\w*)")
    message = keys.sub(lambda key: key[1] if key[1] in arguments else key[0], str(error.args[0]))
    error.args = (message, *error.args[1:])
