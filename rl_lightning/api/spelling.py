"""Errors that speak Python: what they advise is written as arguments, not as flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from rl_lightning.errors import RLError
from rl_lightning.runs.config.catalog import all_options, find

# Arguments of fit, resume, load, find and compare, by the flags that mean the same.
KEYWORDS = {
    "env_steps": "env_steps", "run.env_steps": "env_steps", "updates": "updates", "run.updates": "updates",
    "seed": "seed", "seed_everything": "seed", "seeds": "seeds", "name": "name", "run.name": "name",
    "checkpoint": "checkpoint", "import": "imports", "sort": "sort", "against": "against", "threshold": "threshold",
    "optimal": "optimal",
}  # fmt: skip
_WORDS = {"or", "and", "for", "out", "takes", "instead", "is", "to", "in", "of", "on", "if", "needs"}
_FLAG = re.compile(r"(?<![\w-])--([a-z_][\w.]*\w|[a-z])(?:(?:=| (?=\S))([^\s,;()]+))?")
_QUOTED = re.compile(r"'--([\w.]+)'")  # a name that is talked about, not advised
_IMPORTS = re.compile(r"--import ([\w.]+)((?: --import [\w.]+)*)")
_NAMES = "fit|data|test|play|list|sweep|plot|report|export|show|doctor|compare|watch"
_COMMAND = re.compile(rf"\brl (?:resume \S+ --|(?:{_NAMES})\b).*")
_RESUME = re.compile(r"\brl resume (\S+)(?=$|[\s,;.])(?! --)")


@contextmanager
def spoken_in_python() -> Iterator[None]:
    """Inside, errors of ours that pass through advise what can be written in Python."""
    try:
        yield
    except RLError as error:
        error.args = (in_python(str(error)), *error.args[1:])
        raise


def in_python(message: str) -> str:
    """A message with its flags as arguments; whole command lines stay what they are."""
    return "\n".join(_line(line) for line in message.split("\n"))


def _line(line: str) -> str:
    line = _RESUME.sub(lambda match: f'rl_lightning.resume("{match[1]}")', line)
    command = _COMMAND.search(line)
    end = len(line) if command is None else command.start()
    spoken = _QUOTED.sub(r"'\1'", line[:end])
    spoken = _IMPORTS.sub(_imports, spoken).replace("--filter", "a condition")
    return _FLAG.sub(_argument, spoken) + line[end:]


def _imports(match: re.Match[str]) -> str:
    names = re.findall(r"--import ([\w.]+)", match[0])
    return "imports=[" + ", ".join("..." if name == "PACKAGE" else f'"{name}"' for name in names) + "]"


def _argument(match: re.Match[str]) -> str:
    key, value = match[1], match[2]
    tail = ""
    if value is not None and (value in _WORDS or value.startswith("--")):
        value, tail = None, match[0][match.end(1) - match.start() :]
    if value is not None and value[-1] in ".:":
        value, tail = value[:-1], value[-1]
    spelled = None if value is None else literal(value)
    if key in KEYWORDS:
        return f"{KEYWORDS[key]}={spelled or ''}{tail}"
    full = f"run.{key}" if "." not in key and key in _run_options() else key
    return (f'"{full}"' if spelled is None else f'{{"{full}": {spelled}}}') + tail


def literal(word: str) -> str:
    """A flag's value as Python writes it; a stand-in such as N becomes an ellipsis."""
    if word.isupper():
        return "..."
    if word in ("true", "false", "null"):
        return {"true": "True", "false": "False", "null": "None"}[word]
    return (
        word
        if re.fullmatch(r"[-+]?\d[\d_]*(?:\.\d*)?(?:e[-+]?\d+)?", word)
        else '"' + word.strip("'\"") + '"'
    )


def _run_options() -> set[str]:
    entry = find("RunConfig")
    return set() if entry is None else {option.name for option in all_options(entry)}
