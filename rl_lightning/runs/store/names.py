"""Names that users type: which are allowed, and which right one is nearest to a wrong one."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rl_lightning.errors import ConfigError
from rl_lightning.io.nearness import nearest

RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")  # a leading dash reads as an option


def check_run_name(name: str) -> str:
    """The name itself if a folder may be called so; refuses anything that could leave the log folder."""
    if not isinstance(name, str) or not RUN_NAME.fullmatch(name):
        shown = repr(name if len(str(name)) <= 40 else f"{str(name)[:40]}...")
        raise ConfigError(
            f"run name {shown} is not allowed: 1 to 64 of A-Z a-z 0-9 . _ - with no dot or dash in front"
        )
    return name


def slug(text: str) -> str:
    """A run name made from a config name or path: ppo/cartpole -> ppo-cartpole."""
    text = re.sub(r"\.ya?ml$", "", text.replace("\\", "/"))
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")
    return cleaned[-48:].lstrip("-.") or "run"


def did_you_mean(word: str, choices: Iterable[str], count: int = 3) -> str:
    """ "; did you mean 'x' or 'y'?", or nothing when no choice is near."""
    names = nearest(word, choices, count)
    if not names:
        return ""
    quoted = [f"'{name}'" for name in names]
    return (
        "; did you mean "
        + " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
        + "?"
    )
