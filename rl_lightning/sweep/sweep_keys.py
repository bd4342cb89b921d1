"""Dotted keys, as a user writes them in flags, set in a plain config."""

from __future__ import annotations

import copy
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.catalog import registry

Config = dict[str, Any]
HEADS = ("model", "data", "run", "trainer", "log")
ALONE = ("seed_everything", "threads", "ckpt_path", "resume_mode")
CONFIG = "config"  # the key that stands for whole configs, laid over the base
_SPEC = ("class_path", "init_args", "dict_kwargs")


def check_key(key: Any) -> str:
    """A key that a sweep may vary or set."""
    words = str(key).split(".")
    if key == CONFIG or key in ALONE or key in ("model", "data"):
        return str(key)
    if (words[0] == "stages" and len(words) > 2) or (words[0] in HEADS and len(words) > 1):
        if key == "run.name":
            raise ConfigError("a sweep names its runs itself; run.name cannot be set in it")
        if all(words):
            return str(key)
    raise ConfigError(
        f"'{key}' is not a key of a config; write model.lr, data.env.id, run.env_steps, stages.NAME.model.lr ..., "
        f"or {CONFIG} for whole configs"
    )


def full_key(config: Config, key: str) -> list[str]:
    """The words of a dotted key with `init_args` where a class stands: model.lr -> model, init_args, lr."""
    words = key.split(".")
    path: list[str] = []
    inside: Any = config
    for word in words:
        if isinstance(inside, dict) and "class_path" in inside and word not in _SPEC:
            path.append("init_args")
            inside = inside.get("init_args")
        path.append(word)
        inside = inside.get(word) if isinstance(inside, dict) else None
    if len(path) > 1 and path[0] in ("model", "data") and path[1] not in _SPEC:
        path.insert(
            1, "init_args"
        )  # the class itself may come from elsewhere; its arguments never stand beside it
    return path


def value_at(config: Config, words: list[str]) -> Any:
    inside: Any = config
    for word in words:
        inside = inside.get(word) if isinstance(inside, dict) else None
    return inside


def nested(config: Config, key: str, value: Any) -> Config:
    """A config that holds one value at one key; a word where a class stands, or that is one, is a class."""
    words = full_key(config, key)
    old = value_at(config, words)
    stands = key in ("model", "data") or (isinstance(old, dict) and "class_path" in old)
    if isinstance(value, str) and (stands or value in registry()):
        value = {"class_path": value}
    result: Any = copy.deepcopy(value)
    for word in reversed(words):
        result = {word: result}
    return dict(result)


def overlaid(below: Config, above: Config) -> Config:
    """Mappings merge, all else is replaced, another class forgets the old one's arguments."""
    result = dict(below)
    if "class_path" in above and above["class_path"] != below.get("class_path"):
        result.pop("init_args", None)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = overlaid(old, value) if both else copy.deepcopy(value)  # type: ignore[arg-type]
    return result
