"""The config of one training of a sweep: base, whole configs, dotted keys and a seed."""

from __future__ import annotations

import copy
import os
from typing import Any

from rl_lightning.cli.flags import Parsed
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.sweep.definition import SweepDefinition
from rl_lightning.experiments.sweep.keys import CONFIG, full_key, nested
from rl_lightning.runs.config.compose import Config, compose, find, inline, merge, normalize


def first_point(definition: SweepDefinition) -> dict[str, Any]:
    """Some values of everything that varies, to try the config with."""
    found = {}
    for key, parameter in definition.space.items():
        lowest = int(parameter.low) if parameter.kind == "int" else parameter.low
        found[key] = parameter.choices[0] if parameter.choices else lowest
    return found


def config_of(definition: SweepDefinition, params: dict[str, Any], seed: int) -> Config:
    """The whole config of one training: base, whole configs, keys, seed."""
    names = [*definition.base, *_configs(params.get(CONFIG, []))]
    config = compose(names)
    values = {**definition.fixed, **{key: value for key, value in params.items() if key != CONFIG}}
    threads = max(1, (os.cpu_count() or 1) // definition.jobs)
    if "stages" in config:
        return _pipeline(
            inline(config, find(names[0]).parent), {"threads": threads, **values, "seed_everything": seed}
        )
    for key, value in values.items():
        if key.startswith("stages."):
            raise ConfigError(f"'{key}': {names[0]} has no stages")
        config = merge(config, normalize(nested(config, key, value)))
    config["seed_everything"] = seed
    config["threads"] = config.get("threads") or threads
    return config


def check_config(config: Config, parsed: Parsed) -> None:
    """Refuses a config that training would refuse, before anything is made."""
    from rl_lightning.runs.config.parsing import parse_config

    if "stages" not in config:
        parse_config(config, parsed.request())
        return
    from rl_lightning.pipeline.plan import make_plan, set_key
    from rl_lightning.runs.engine.pipelines import refuse_names

    for job in make_plan(config, refuse_names):
        stage = copy.deepcopy(job.config)
        for dotted, source in job.takes.items():
            set_key(stage, dotted, f"product of {source}")
        parse_config(stage, parsed.request())


def _configs(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _pipeline(config: Config, values: dict[str, Any]) -> Config:
    """Values set in the stages they belong to: those of one stage, or of all."""
    config = copy.deepcopy(config)
    config.pop("name", None)  # the sweep names its runs
    stages = {str(stage.get("name")): stage for stage in config["stages"] if isinstance(stage, dict)}
    for key, value in values.items():
        words = key.split(".")
        if words[0] != "stages":
            chosen, dotted = list(stages.values()), key
        elif words[1] in stages:
            chosen, dotted = [stages[words[1]]], ".".join(words[2:])
        else:
            raise ConfigError(f"'{key}': there is no stage '{words[1]}'; there are {', '.join(stages)}")
        for stage in chosen:
            place = ".".join(full_key(stage.get("config") or {}, dotted))
            own = dict(stage.get("set") or {})
            if dotted == "threads" and (stage.get("config") or {}).get("threads") is not None:
                continue
            stage["set"] = {**own, place: value}
    return config
