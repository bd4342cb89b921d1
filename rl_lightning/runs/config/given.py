"""Objects handed over in Python where a config has plain values: kept beside it, and marked in what is written down."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.envs.own_envs import OwnEnv, as_env_config
from rl_lightning.errors import ConfigError
from rl_lightning.models.described import given_in_python, is_given
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.config.swapped import accepts
from rl_lightning.runs.store.names import did_you_mean

Objects = dict[str, dict[str, Any]]  # of model, data and trainer: argument -> object

# A parser needs something where an argument must be given; it is replaced before anything is made of it.
STAND_INS: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "dataset": "given in Python"}


def take_over(config: Config, given: Mapping[str, Any]) -> tuple[Config, Objects]:
    """The config as a parser can read it, and the objects; raises where one is marked and not given again."""
    objects: Objects = {"model": {}, "data": {}, "trainer": {}}
    for key, value in given.items():
        group, name = place_of(key)
        objects[group][name] = as_env_config(value) if (group, name) == ("data", "env") else value
    missing = [
        f"{group}.{name}"
        for group in objects
        for name, value in arguments_of(config, group).items()
        if is_given(value) and name not in objects[group]
    ]
    check_again(missing)
    config = copy.deepcopy(config)
    for group, named in objects.items():
        for name in named:
            own = arguments_of(config, group, make=True)
            own.pop(name, None)
            if group == "data" and name in STAND_INS:
                own[name] = copy.deepcopy(STAND_INS[name])
    return config, objects


def check_again(missing: list[str]) -> None:
    """Raises where something was given in Python that is not given again."""
    if missing:
        again = ", ".join(f'"{key}": ...' for key in missing)
        raise ConfigError(
            f"{', '.join(missing)} was given in Python, and no file holds it; give it again there: given={{{again}}}"
        )


def place_of(key: str) -> tuple[str, str]:
    """Group and argument of a dotted name: objects are handed over as whole arguments."""
    group, *rest = key.replace(".init_args.", ".").split(".")
    if group not in ("model", "data", "trainer") or len(rest) != 1:
        raise ConfigError(
            f"{key}: an object is handed over as an argument of the model, the data or the trainer, "
            "e.g. model.network or data.env"
        )
    return group, rest[0]


def arguments_of(config: Config, group: str, make: bool = False) -> dict[str, Any]:
    """Arguments of a group as they stand in a config; empty ones are made where there is none."""
    part = config.get(group)
    if part is None and make:
        part = config[group] = {}
    if not isinstance(part, dict):
        return {}
    if group == "trainer":
        return part
    own = part.setdefault("init_args", {}) if make else part.get("init_args")
    return own if isinstance(own, dict) else {}


def marked(config: Config, objects: Objects) -> Config:
    """A resolved config with marks where objects were handed over: a name, and a hash where there is one."""
    for group, named in objects.items():
        for name, value in named.items():
            arguments_of(config, group, make=True)[name] = mark(value)
    return config


def mark(value: Any) -> dict[str, Any]:
    if isinstance(value, OwnEnv):
        return {**given_in_python(value.factory), "id": value.id}  # records name a run's env
    return given_in_python(value)


def makers(objects: Objects) -> list[tuple[Callable[..., Any], type[Any], bool]]:
    """How model and data are made where they get objects, which no parser looks at."""
    groups = (("model", RLModule), ("data", RLData))
    return [
        (partial(_made_with, group, objects[group]), base, True) for group, base in groups if objects[group]
    ]


def _made_with(group: str, objects: dict[str, Any], cls: type[Any], *args: Any, **kwargs: Any) -> Any:
    known = accepts(cls)
    for name in objects:
        if name not in known:
            raise ConfigError(
                f"{group}.{name}: {cls.__name__} has no such argument{did_you_mean(name, known)}"
            )
    return cls(*args, **{**kwargs, **objects})
