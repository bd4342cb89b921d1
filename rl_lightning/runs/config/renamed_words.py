"""Configs of version 1 in today's words: classes, options and values by `renamed_words.csv` beside this file.

An option is known by its class, since one word meant several things: `hidden` is `hidden_dims` of an MLP and
`hidden_dim` of an RNN.
"""

from __future__ import annotations

import csv
import functools
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

# Where settings stand that have no class_path of their own.
_OWNERS = {"run": "RunConfig", "log": "LogConfig", "env": "EnvConfig", "phases": "Phase", "hooks": "Hook"}
_DOTTED = ("overrides", "inputs", "shared")  # of a pipeline: their keys are paths


class _Words(NamedTuple):
    classes: dict[str, str]
    options: dict[str, dict[str, str]]  # old class -> old name -> new
    values: dict[tuple[str, str], dict[str, str]]  # old class and new name -> old value -> new
    stage: dict[str, str]


@functools.cache
def _words() -> _Words:
    classes, stage = dict[str, str](), dict[str, str]()
    options: dict[str, dict[str, str]] = defaultdict(dict)
    values: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for kind, owner, old, new in list(csv.reader(file))[1:]:
            if kind == "class":
                classes[old] = new
            elif kind == "key":
                options[owner][old] = new
            elif kind == "stage":
                stage[old] = new
            else:
                values[owner, kind.removeprefix("value:")][old] = new
    return _Words(classes, dict(options), dict(values), stage)


def in_todays_words(config: Any, owner: str = "") -> Any:
    """A copy of settings with every old word replaced; `owner` is the class whose options they are."""
    if isinstance(config, list):
        return [in_todays_words(item, owner) for item in config]
    if not isinstance(config, dict):
        return config
    if isinstance(config.get("class_path"), str):
        return _recipe(config)
    if "stages" in config:
        return {**_options(config, ""), "stages": [_stage(stage) for stage in config["stages"]]}
    return _options(config, owner)


def _recipe(config: dict[str, Any]) -> dict[str, Any]:
    home, _, name = config["class_path"].rpartition(".")
    renamed = {**config, "class_path": f"{home}.{_class(name)}".lstrip(".")}
    if isinstance(config.get("init_args"), dict):
        renamed["init_args"] = _options(config["init_args"], name)
    return renamed


def _options(config: dict[str, Any], owner: str) -> dict[str, Any]:
    return {
        new: _value(owner, new, in_todays_words(value, _OWNERS.get(old, "")))
        for old, value in config.items()
        for new in (_option(owner, old),)
    }


def _class(name: str) -> str:
    return _words().classes.get(name, name)


def _option(owner: str, old: str) -> str:
    return _words().options.get(owner, {}).get(old, old)


def _value(owner: str, option: str, value: Any) -> Any:
    known = _words().values.get((owner, option))
    if known is None or not isinstance(value, str | bool):
        return value
    new = known.get(str(value).lower() if isinstance(value, bool) else value)
    return value if new is None else {"true": True, "false": False}.get(new, new)


def _stage(stage: Any) -> Any:
    """One stage of a pipeline; the keys of its overrides and inputs are paths into its config."""
    if not isinstance(stage, dict):
        return stage
    old = stage.get("config")
    named = {_words().stage.get(key, key): value for key, value in stage.items()}
    return {
        key: {_path(dotted, old): value for dotted, value in below.items()}
        if key in _DOTTED and isinstance(below, dict)
        else in_todays_words(below)
        for key, below in named.items()
    }


def _path(dotted: str, config: Any) -> str:
    """A dotted key in today's words, as far as the config that it leads into tells whose options they are."""
    words, owner = list[str](), ""
    for word in dotted.split("."):
        below = config.get(word) if isinstance(config, dict) else None
        if word == "init_args" and isinstance(config, dict) and isinstance(config.get("class_path"), str):
            owner = config["class_path"].rpartition(".")[2]
            words.append(word)
        else:
            words.append(_option(owner, word))
            owner = _OWNERS.get(word, "")
        config = below
    return ".".join(words)
