"""Which stages a key is for: what is laid over a pipeline, by flags or configs, reaches every stage that has it."""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError
from rl_lightning.io.nearness import nearest
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.aliases import Place, advice, named_classes
from rl_lightning.runs.config.compose import Config, merge
from rl_lightning.runs.config.keys import TOP

BUDGETS = ("env_steps", "updates")
OF_ONE_STAGE = ("ckpt_path", "resume_mode")
_SPEC = ("class_path", "init_args", "dict_kwargs")


def takes(config: Mapping[str, Any], dotted: str) -> bool:
    """Whether a stage has a key: its classes have such arguments, and a budget counts what the stage counts."""
    head, _, name = dotted.partition(".")
    return _counts(config, name) if head == "run" and name in BUDGETS else refusal(config, dotted) is None


class Refusal(NamedTuple):
    """A class that has no such argument.

    Args:
        place: Dotted key of the class.
        class_path: Its own.
        word: The argument that it does not have.
        names: Those that it has.
    """

    place: str
    class_path: str
    word: str
    names: list[str]


def refusal(config: Mapping[str, Any], dotted: str) -> Refusal | None:
    """The first class on the way to a key of a stage that knows no such argument; None where all know it."""
    head, *words = [word for word in dotted.split(".") if word != "init_args"]
    inside, way = config.get(head), [head]
    for word in words if head in ("model", "data") else ():
        if not isinstance(inside, Mapping):
            return None  # the parser knows what may stand there
        if "class_path" in inside:
            names = argument_names(str(inside["class_path"]))
            if names is not None and word not in (*names, *_SPEC):
                return Refusal(".".join(way), str(inside["class_path"]), word, names)
            inside = inside.get("init_args") or {}
        inside = inside.get(word)
        way.append(word)
    return None


def _counts(config: Mapping[str, Any], budget: str) -> bool:
    run = config.get("run") or {}
    (other,) = (key for key in BUDGETS if key != budget)
    return bool(run.get(budget)) or not run.get(other)


def argument_names(class_path: str) -> list[str] | None:
    """Of a class of ours, or of one that is imported already: a config decides nothing about what is imported."""
    if catalog.find(class_path):
        return catalog.argument_names(class_path)
    module, _, name = class_path.rpartition(".")
    cls = getattr(sys.modules.get(module), name, None)
    if not isinstance(cls, type):
        return None
    parameters = list(inspect.signature(cls).parameters.values())
    hands_on = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return None if hands_on else [parameter.name for parameter in parameters]


def lay(config: Config, layer: Config) -> Config:
    """What a stage has of a layer, merged over the stage's config."""
    for dotted, value in settings(layer):
        if takes(config, dotted):
            config = merge(config, _nested(dotted.split("."), value))
    return config


def settings(layer: Config) -> list[tuple[str, Any]]:
    """The settings of a layer by dotted key: of a group one by one, all else as it stands."""
    rows: list[tuple[str, Any]] = []
    for key, value in layer.items():
        group = value if isinstance(value, dict) else None
        if key in ("model", "data") and group is not None:
            rows += [(f"{key}.{name}", item) for name, item in group.items() if name != "init_args"]
            rows += [
                (f"{key}.init_args.{name}", item) for name, item in (group.get("init_args") or {}).items()
            ]
        elif group is not None:
            rows += [
                (f"{key}.{name}", item) for name, item in group.items() if (key, name) != ("run", "name")
            ]
        else:
            rows.append((key, value))
    return rows


def _nested(words: list[str], value: Any) -> Config:
    return {words[0]: _nested(words[1:], value) if len(words) > 1 else copy.deepcopy(value)}


def flags_of(config: Config, flags: Iterable[str]) -> list[str]:
    """Those of the flags for all stages that a stage takes."""
    return [flag for flag in flags if takes(config, key_of(flag))]


def key_of(flag: str) -> str:
    return flag[2:].partition("=")[0]


def check_reach(configs: Mapping[str, Config], keys: Iterable[str]) -> list[str]:
    """Refuses a key that no stage has, and one that must say which stage it is for; returns a note per key of a few.

    Args:
        configs: Of every stage, by its name.
        keys: Dotted, for all stages.
    """
    notes: list[str] = []
    for key in dict.fromkeys(keys):
        shown = key.replace(".init_args", "")
        _check_for_all(shown, list(configs))
        takers = [stage for stage, config in configs.items() if takes(config, key)]
        if not takers:
            raise ConfigError(_nobody_has(shown, configs))
        if len(takers) < len(configs):
            others = [stage for stage in configs if stage not in takers]
            notes.append(
                f"{shown} goes to {listed(takers)}, not to {listed(others)}; of one stage alone: "
                f"--stages.{takers[0]}.{shown}"
            )
    return notes


def _check_for_all(key: str, stages: list[str]) -> None:
    """A class, or a checkpoint to begin with, belongs to one stage."""
    if key in OF_ONE_STAGE or key.removesuffix(".class_path") in ("model", "data"):
        raise ConfigError(
            f"{key}: say which stage of the pipeline: --stages.{stages[-1]}.{key} VALUE; the stages are "
            f"{', '.join(stages)}"
        )


def _nobody_has(key: str, configs: Mapping[str, Config]) -> str:
    """What is wrong with a key that no stage has, and how a similar one would be written."""
    last = key.rpartition(".")[2]
    if key in [f"run.{budget}" for budget in BUDGETS]:
        (other,) = (name for name in BUDGETS if name != last)
        return (
            f"--{last}: the stages {listed(list(configs))} count {other.replace('_', ' ')}; give --{other} N"
        )
    refusals = {stage: refused for stage, config in configs.items() if (refused := refusal(config, key))}
    for stage, refused in refusals.items():
        near = nearest(refused.word, refused.names, 1)
        if near:
            return f"no stage has {key}; did you mean --stages.{stage}.{refused.place}.{near[0]} VALUE?"
    for stage, refused in refusals.items():
        place = Place(named_classes(configs[stage]), refused.place, refused.names)
        if hint := advice(f"{refused.place}.{refused.word}", place):
            return f"no stage has {key}; stage {stage}{hint.replace('; ', ': ', 1)}"
    return f"no stage has {key}; the stages are {listed(list(configs))}; see them with: --print_config"


def listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]


def own_layer(pipeline: Mapping[str, Any]) -> Config:
    """The keys of a stage that a pipeline has at its top: for all stages, below their own overrides."""
    return {key: value for key, value in pipeline.items() if key in TOP}


def name_of(pipeline: Mapping[str, Any]) -> str | None:
    """run.name of a pipeline or of what is laid over it: that of its folder."""
    names = [(layer.get("run") or {}).get("name") for layer in (pipeline.get("overlay") or {}, pipeline)]
    return next((name for name in names if name is not None), None)


def dotted_keys(layer: Config) -> list[str]:
    return [dotted for dotted, _ in settings(layer)]
