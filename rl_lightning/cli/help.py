"""What --help prints: the docstrings of the verbs, read from their source, so that nothing has to be imported.

The first line of a verb's docstring is its line in `rl --help`, the rest is `rl VERB --help`. Where a verb has verbs of
its own, as `rl data` has, each is a function `_make` beside it, whose docstring is `rl data make --help`. A name in
brackets on a line of its own stands for one of SHARED. Options of classes come from their source, too.
"""

from __future__ import annotations

import ast
import inspect
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from rl_lightning.cli.commands import COMMANDS

if TYPE_CHECKING:
    from rl_lightning.cli.flags import ParsedArgs

PACKAGE = Path(__file__).parents[1]
OVERVIEW = """\
rl: train, evaluate and look after reinforcement learning runs

usage: rl COMMAND [options]

{verbs}

rl COMMAND --help says more. Options may be written with - or _. Runs live in ./lightning_logs (or $RL_LOGS).
Exit codes: 0 done, 1 our bug, 2 usage or config, 3 data, 4 checkpoint, 5 diverged, 6 environment,
130 Ctrl-C, 143 SIGTERM."""
SHARED = {
    "CONFIG": """\
options for the config, laid over it in this order:
  --config NAME|FILE      a shipped name (rl list configs) or a YAML file; several overlay left to right
  --KEY.SUBKEY VALUE      any field: --model.lr 3e-4, --data.num_envs 16, --data.env.id Acrobot-v1
  --model CLASS           another class; it forgets the arguments of the old one (data keep their env). Without a
                          config: Dreamer is dreamer_v3/states, TDMPC2 tdmpc2/states, TDMPC tdmpc, PlaNet planet
  --import PACKAGE        import a package of yours from here; its classes may then be named (repeatable)""",
    "GROUPS": """\
A name is that of a run, of a group of seeds, or of runs NAME-s0, NAME-s1 ...; of a pipeline its last stage.""",
    "STATISTICS": """\
  --metrics A,B           metrics to compare (default reward); reward and loss stand for each run's score and loss
  --threshold X           score that counts as reached (default: nine tenths of the way from lowest to highest seen)
  --optimal X             score that the gap is measured from (default: the best seen)
  --against CLOCK         env_step, update or time (training time in seconds); default: the runs' own clock""",
}


def overview() -> str:
    """Every verb in a line."""
    return OVERVIEW.format(verbs="\n".join(f"  {name:<9}  {_docstring(name)[0]}" for name in COMMANDS))


def text_of(name: str) -> str:
    """What a verb says of itself."""
    lines = _docstring(name)[1].splitlines()
    return "\n".join(SHARED.get(line.strip("[]"), line) for line in lines)


def verbs_of(name: str) -> dict[str, str]:
    """What the verbs of a verb say of themselves; most have none."""
    documented = {function[1:]: text for function, text in _docstrings(name).items() if function[0] == "_"}
    return {verb: text for verb, text in documented.items() if text.startswith(f"usage: rl {name} {verb}")}


def _docstring(name: str) -> tuple[str, str]:
    """Its first line, and the rest."""
    first, _, rest = _docstrings(name)[COMMANDS[name].split(":")[1]].partition("\n")
    return first, rest.strip("\n")


def _docstrings(name: str) -> dict[str, str]:
    """Those of the functions beside a verb's, and its own."""
    path = (PACKAGE.parent / COMMANDS[name].split(":")[0].replace(".", "/")).with_suffix(".py")
    nodes = ast.parse(path.read_text(encoding="utf-8"), str(path)).body
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return {node.name: inspect.cleandoc(ast.get_docstring(node) or "") for node in functions}


def command(name: str, words: list[str] | None = None) -> str:
    """Help of one command; for fit also the options of the run group and of the classes that are named."""
    verbs = verbs_of(name)
    text = next((verbs[word] for word in (words or [])[:1] if word in verbs), text_of(name))
    if name == "fit":
        from rl_lightning.cli.flags import classes_of
        from rl_lightning.cli.own_help import own_help

        parsed = _parsed(words or [])
        own = own_help(parsed.configs, parsed.options)
        text += f"\n{own}" if own else ""
        text += "\n" + class_help("RunConfig", "run", note=" (each also without `run.`)")
        text += "\n" + class_help("LogConfig", "log")
        for key, path in classes_of(parsed).items():
            text += "\n" + class_help(path, key)
        text += "\n\nOptions of an algorithm: rl list algorithms NAME, or rl fit --config NAME --help"
    return text


def class_help(path: str, prefix: str, note: str = "") -> str:
    """The options of one of our classes, as flags below `prefix`."""
    from rl_lightning.runs.config import catalog

    entry = catalog.find(path)
    if entry is None:
        return ""
    options = [option for option in catalog.all_options(entry) if option.name != "spec"]
    if not options:
        return ""
    width = max(70, min(shutil.get_terminal_size((110, 20)).columns, 130))
    lines = [f"\n--{prefix}.* of {entry.name}{note}: {entry.doc}"]
    for option in options:
        default = "required" if option.default is None else f"default {option.default}"
        head = f"  --{prefix}.{option.name}  "
        body = f"{option.doc} ({option.type}, {default})".strip()
        lines.append(textwrap.fill(body, width, initial_indent=head.ljust(28), subsequent_indent=" " * 28))
    return "\n".join(lines)


def _parsed(words: list[str]) -> ParsedArgs:
    """The command line without the word that asks for help."""
    from rl_lightning.cli.flags import parse
    from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES

    words = [word for word in words if word not in ("-h", "--help")]
    return parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="fit")
