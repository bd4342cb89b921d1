"""A sweep as its file and the command line say, and the config of each of its trainings."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from rl_lightning.errors import ConfigError
from rl_lightning.redaction import redact, redacted_keys
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.compose import (
    PIPELINE_KEYS,
    STAGE_KEYS,
    SWEEP_KEYS,
    Config,
    compose,
    fill_variables,
    find,
    inline,
    merge,
    normalize,
    own_options,
)
from rl_lightning.runs.config.keys import full_key
from rl_lightning.runs.pipeline.reach import takes
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.names import check_run_name, slug
from rl_lightning.sweep.definition import SweepDefinition, read_definition
from rl_lightning.sweep.sweep_keys import CONFIG, OWN, nested


@dataclass(frozen=True)
class SweepOptions:
    """What is asked of a sweep besides its file.

    Args:
        config: The file or shipped name, as it was typed; of a sweep or, where something is typed, of a training.
        overlays: More configs, laid over that one.
        typed: What was typed of a sweep: grid, space, seeds, overrides.
        name: Of the sweep; null: as the file says.
        trials: How many; null: as the file says.
        jobs: Trainings at a time; null: as the file says.
        storage: URL of the study; null: as the file says.
        launcher: submitit, to send the workers to a cluster; null: work in this process.
        launcher_options: More options of submitit.
        imports: Packages of the user's that configs may name.
        hours: Stop after so long; null: never.
        export_best: How many of the best trials are written as configs.
        plots: Whether pictures are drawn.
    """

    config: str
    overlays: list[str] = field(default_factory=list)
    typed: dict[str, Any] = field(default_factory=dict)
    name: str | None = None
    trials: int | None = None
    jobs: int | None = None
    storage: str | None = None
    launcher: str | None = None
    launcher_options: dict[str, Any] = field(default_factory=dict)
    imports: list[str] = field(default_factory=list)
    hours: float | None = None
    export_best: int = 1
    plots: bool = True

    @property
    def import_words(self) -> list[str]:
        return [word for package in self.imports for word in ("--import", package)]


def read_sweep(options: SweepOptions) -> SweepDefinition:
    """The sweep that is asked for, refused before anything is made where training would refuse it."""
    definition = overridden(read_options(options), options)
    for key, value in {**definition.fixed, **first_point(definition)}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"sweep: {key} is {value}")
    first = first_config(definition)
    check_secrets(first)
    check_config(first, Request(imports=options.imports))
    return definition


def read_options(options: SweepOptions) -> SweepDefinition:
    source, name = find(options.config), options.name
    entries = with_own_options(entries_of(options))
    stem = source.stem if source.parent.name != "sweep" else f"sweep-{source.stem}"
    stem = stem if is_sweep(yaml_io.load(source)) else f"sweep-{options.config}"
    try:
        definition = read_definition(fill_variables(entries), name or slug(stem))
    except ConfigError as error:
        raise ConfigError(f"{source.name}: {error}") from None
    return definition.changed(name=check_run_name(name)) if name else definition


def entries_of(options: SweepOptions) -> dict[str, Any]:
    """The YAML of a sweep: its file's with what was typed, or all that was typed about a config for training."""
    loaded = yaml_io.load(find(options.config))
    if is_sweep(loaded) and options.overlays:
        raise ConfigError(f"{options.config} is a sweep; it says what it is of, and takes no second --config")
    if not is_sweep(loaded) and not {"grid", "space"} & options.typed.keys():
        if set(loaded) <= {*STAGE_KEYS, *PIPELINE_KEYS, "extends"}:
            raise ConfigError(
                f"{options.config} is no sweep; say what varies, e.g. --grid.model.lr 1e-4,3e-4"
            )
        return loaded
    entries: dict[str, Any] = (
        loaded if is_sweep(loaded) else {"base_config": [options.config, *options.overlays]}
    )
    for key, value in options.typed.items():
        old = entries.get(key)
        entries[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return entries


def with_own_options(entries: dict[str, Any]) -> dict[str, Any]:
    """The same with `options.` before the names that the base declares for itself."""
    base = entries.get("base_config") or []
    own = own_options([base] if isinstance(base, str) else base)
    marked = dict(entries)
    for part in ("grid", "space", "overrides"):
        if isinstance(entries.get(part), Mapping):
            marked[part] = {
                f"{OWN}{key}" if key in own else key: value for key, value in entries[part].items()
            }
    return marked


def is_sweep(entries: Mapping[str, Any]) -> bool:
    return any(key in entries for key in SWEEP_KEYS)


def text_of(options: SweepOptions) -> str:
    """What a sweep's folder keeps of it: its file as it is, unless something was typed."""
    if not options.typed:
        return find(options.config).read_text(encoding="utf-8")
    return yaml.safe_dump(entries_of(options), sort_keys=False)


def overridden(definition: SweepDefinition, options: SweepOptions) -> SweepDefinition:
    if options.trials and definition.points is not None:
        raise ConfigError("--trials: a grid tries all of its points")
    default = "journal" if options.launcher and definition.storage == "sqlite" else definition.storage
    return definition.changed(
        trials=options.trials or definition.trials,
        jobs=options.jobs or definition.jobs,
        storage=options.storage or default,
    )


def check_secrets(config: Config) -> None:
    """The trials' configs lie in the sweep's folder, and each is trained from there."""
    if secrets := redacted_keys(redact(config)):
        raise ConfigError(
            f"{secrets[0]} is secret and a sweep writes its trials' configs: "
            "put it into an environment variable and write ${NAME}"
        )


def first_point(definition: SweepDefinition) -> dict[str, Any]:
    """Some values of everything that varies, to try the config with."""
    point = {}
    for key, parameter in definition.space.items():
        lowest = int(parameter.low) if parameter.kind == "int" else parameter.low
        point[key] = parameter.choices[0] if parameter.choices else lowest
    return point


def first_config(definition: SweepDefinition) -> Config:
    return config_of(definition, first_point(definition), definition.seeds[0])


def config_of(definition: SweepDefinition, params: dict[str, Any], seed: int) -> Config:
    """The whole config of one training: base, whole configs, keys, seed."""
    names = [*definition.base, *_configs(params.get(CONFIG, []))]
    values = {**definition.fixed, **{key: value for key, value in params.items() if key != CONFIG}}
    given = {key.removeprefix(OWN): value for key, value in values.items() if key.startswith(OWN)}
    values = {key: value for key, value in values.items() if not key.startswith(OWN)}
    config = compose(names, given)
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


def check_config(config: Config, request: Request) -> None:
    """Refuses a config that training would refuse, before anything is made."""
    from rl_lightning.runs.config.parsing import parse_config

    if "stages" not in config:
        parse_config(config, request)
        return
    from rl_lightning.runs.pipeline.fit_pipeline import check_stage_config
    from rl_lightning.runs.pipeline.plan import make_plan, set_key

    for job in make_plan(config, check_stage_config):
        stage = copy.deepcopy(job.config)
        for dotted, source in job.inputs.items():
            set_key(stage, dotted, f"artifact of {source}")
        parse_config(stage, request)


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
            chosen, dotted = (
                [stage for stage in stages.values() if takes(stage.get("config") or {}, key)],
                key,
            )
            if not chosen:
                raise ConfigError(f"'{key}': none of the stages {', '.join(stages)} has it")
        elif words[1] in stages:
            chosen, dotted = [stages[words[1]]], ".".join(words[2:])
        else:
            raise ConfigError(f"'{key}': there is no stage '{words[1]}'; there are {', '.join(stages)}")
        for stage in chosen:
            place = ".".join(full_key(stage.get("config") or {}, dotted))
            own = dict(stage.get("overrides") or {})
            if dotted == "threads" and (stage.get("config") or {}).get("threads") is not None:
                continue
            stage["overrides"] = {**own, place: value}
    return config
