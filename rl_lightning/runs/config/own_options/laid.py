"""Settings by dotted keys laid over a composed config: into the stages of a pipeline, or into a plain config."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config.keys import full_key

Config = dict[str, Any]
OF_A_STAGE = ("inputs", "artifact", "once", "warm_start", "skip", "config", "budget_by_cycle")
OF_A_PIPELINE = ("cycles", "name")


def layer_of(config: Config, settings: Mapping[str, Any]) -> Config:
    """A config that holds the settings and no more; a pipeline's are shared, or overrides of a stage."""
    layer: Config = {}
    for dotted, value in settings.items():
        if "stages" not in config:
            _set(layer, full_key(config, dotted), value)
        elif dotted.startswith("stages."):
            _set_in_stage(layer, config, dotted, value)
        elif dotted in OF_A_PIPELINE:
            layer[dotted] = copy.deepcopy(value)
        else:
            layer.setdefault("shared", {})[dotted] = copy.deepcopy(value)
    return layer


def _set_in_stage(layer: Config, config: Config, dotted: str, value: Any) -> None:
    _, name, key = dotted.split(".", 2)
    names = [str(stage.get("name")) for stage in config["stages"] if isinstance(stage, dict)]
    if name not in names:
        raise ConfigError(f"options: {dotted}: there is no stage '{name}'; there are {', '.join(names)}")
    stages = layer.setdefault("stages", [])
    stage = next((each for each in stages if each["name"] == name), None)
    if stage is None:
        stage = {"name": name}
        stages.append(stage)
    head, _, rest = key.partition(".")
    if head in OF_A_STAGE:
        _set(stage, [head, rest] if rest else [head], value)
    else:
        stage.setdefault("overrides", {})[key] = copy.deepcopy(value)


def _set(config: Config, words: list[str], value: Any) -> None:
    for word in words[:-1]:
        config = config.setdefault(word, {})
    config[words[-1]] = copy.deepcopy(value)
