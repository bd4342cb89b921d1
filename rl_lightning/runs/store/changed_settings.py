"""Settings that a run changed: against the config it came from, and against the defaults in the source."""

from __future__ import annotations

import ast
from typing import Any

from rl_lightning.runs.config import catalog
from rl_lightning.runs.store.flat_settings import INCIDENTAL, flatten, short_class

IGNORED = ("trainer.", "threads", "matmul")
GROUPS = {"run": "RunConfig", "log": "LogConfig"}


def changed(settings: dict[str, Any], shipped: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings that are not as shipped, nor, where nothing was shipped, the default: {key: (before, now)}.

    Args:
        settings: Of the run, flat.
        shipped: The config it began with; empty if it was the user's own.
    """
    below = flatten(shipped) if shipped else {}
    changes: dict[str, tuple[Any, Any]] = {}
    for key, value in settings.items():
        if key in INCIDENTAL or (key.startswith(IGNORED) and key not in below):
            continue
        if key in below:
            if not (same_class if key.endswith("class_path") else same)(below[key], value):
                changes[key] = (below[key], value)
        else:
            known, default = default_of(key, settings)
            if known and not same(default, value):
                changes[key] = (default, value)
    return changes


def same(a: Any, b: Any) -> bool:
    empty = ("None", "[]", "{}", "")
    return bool(a == b) or str(a) == str(b) or (str(a) in empty and str(b) in empty)


def same_class(a: Any, b: Any) -> bool:
    """Whether two class_paths are one class: where a class is made known and where its file lies are both its path."""
    parted = [str(path).split(".") for path in (a, b)]
    return parted[0][0] == parted[1][0] and parted[0][-1] == parted[1][-1]


def default_of(key: str, settings: dict[str, Any]) -> tuple[bool, Any]:
    """Whether a default is known, and which: that of the class which the setting is an argument of."""
    owner, _, name = key.rpartition(".")
    path = settings.get(f"{owner}.class_path") or GROUPS.get(owner) or {"data.env": "EnvConfig"}.get(owner)
    entry = catalog.find(str(path)) or catalog.classes("cli").get(short_class(path)) if path else None
    if entry is None or name == "class_path":
        return False, None
    for option in catalog.all_options(entry):
        if option.name == name and option.default is not None:
            try:
                return True, ast.literal_eval(option.default)
            except (ValueError, SyntaxError):
                return False, None
    return False, None
