"""The version of a config, and what an older one needs to run today.

A config.yaml that a run leaves says `config_version: N`; one that says nothing is taken as of today. An older one is
brought up to date key by key; where a key has no successor it is refused, with what to write instead.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.renamed_words import in_todays_words

VERSION = 2
KEY = "config_version"

Config = dict[str, Any]


class Change(NamedTuple):
    """One key that a version renamed, moved or took away."""

    version: int  # the first that knows the new key
    old: str  # dotted
    new: str | None  # dotted; None if it is gone
    instead: str = ""  # what to write instead of a key that is gone


CHANGES: tuple[Change, ...] = ()  # of dotted keys, from version 2 on
WORDS = 2  # the first version whose classes and options have today's names


def stamped(config: Config) -> Config:
    """The config with today's version in front."""
    return {KEY: VERSION, **{key: value for key, value in config.items() if key != KEY}}


def migrate(
    config: Config, where: str, changes: tuple[Change, ...] = CHANGES, version: int = VERSION
) -> Config:
    """The config as of today, without its version; raises ConfigError with what to change by hand."""
    written = config.get(KEY, version)
    if isinstance(written, bool) or not isinstance(written, int) or written < 0:
        raise ConfigError(f"{where}: {KEY} is {written!r:.40}; it is a whole number, today {version}")
    if written > version:
        raise ConfigError(
            f"{where}: was written for a later rl_lightning ({KEY} {written}; this one knows {version}). "
            "Update rl_lightning, in a checkout with git pull"
        )
    current = copy.deepcopy({key: value for key, value in config.items() if key != KEY})
    if written < WORDS:
        current = in_todays_words(current)
    for change in sorted(changes, key=lambda change: change.version):
        if written < change.version:
            _apply(current, change, where)
    return current


def _apply(config: Config, change: Change, where: str) -> None:
    *path, last = change.old.split(".")
    parent = _inside(config, path)
    if parent is None or last not in parent:
        return
    if change.new is None:
        raise ConfigError(
            f"{where}: {change.old} is gone since config_version {change.version}; write {change.instead}"
        )
    *path, name = change.new.split(".")
    target = config
    for word in path:
        target = target.setdefault(word, {})
    if name in target:
        raise ConfigError(f"{where}: has both {change.old} (of old) and {change.new}; keep one")
    target[name] = parent.pop(last)


def _inside(config: Config, path: list[str]) -> Config | None:
    node: Any = config
    for word in path:
        node = node.get(word) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None
