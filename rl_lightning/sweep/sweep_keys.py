"""Dotted keys, as a user writes them in flags, set in a plain config."""

from __future__ import annotations

import copy
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.catalog import registry
from rl_lightning.runs.config.keys import full_key

Config = dict[str, Any]
HEADS = ("model", "data", "run", "trainer", "log")
ALONE = ("seed_everything", "threads", "matmul", "ckpt_path", "resume_mode")
CONFIG = "config"  # the key that stands for whole configs, laid over the base
OWN = "options."  # before the name of an option that the base declares for itself


def check_key(key: Any) -> str:
    """A key that a sweep may vary or set."""
    words = str(key).split(".")
    if (
        key == CONFIG
        or key in ALONE
        or key in ("model", "data")
        or (len(words) == 2 and f"{words[0]}." == OWN)
    ):
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
