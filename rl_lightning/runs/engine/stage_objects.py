"""Objects handed over in Python for a pipeline: which stage gets which, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.models.described import fingerprint_of
from rl_lightning.runs.config.given import check_again, place_of
from rl_lightning.runs.config.swapped import accepts, known
from rl_lightning.runs.pipeline.plan import Job

Objects = dict[str, dict[str, Any]]  # stage -> dotted name -> object


def by_stage(given: Mapping[str, Any], jobs: list[Job]) -> Objects:
    """`stages.NAME.KEY` is for one stage; a plain KEY for every stage whose model or data take such an argument."""
    configs = {job.stage: job.config for job in jobs}
    objects: Objects = {stage: {} for stage in configs}
    for key, value in given.items():
        if key.startswith("stages."):
            _, stage, rest = [*key.split(".", 2), ""][:3]
            if stage not in configs or not rest:
                raise ConfigError(
                    f"{key}: write stages.NAME.KEY, e.g. stages.{next(iter(configs))}.data.env; the stages are "
                    f"{', '.join(configs)}"
                )
            objects[stage][rest] = value
            continue
        takers = [stage for stage, config in configs.items() if takes(config, key)]
        if not takers:
            raise ConfigError(f"{key}: none of the stages {', '.join(configs)} takes it")
        for stage in takers:
            objects[stage].setdefault(key, value)  # what is given for one stage goes first
    return objects


def takes(config: Mapping[str, Any], key: str) -> bool:
    """Whether the class that a stage's config names has this argument."""
    group, name = place_of(key)
    if group == "trainer":
        return True
    part = config.get(group)
    cls = known(part.get("class_path") if isinstance(part, Mapping) else part)
    return cls is not None and name in accepts(cls)


def marks(objects: Mapping[str, Any]) -> list[str]:
    """What tells a stage that was made with other objects: their names, and hashes where there are some."""
    return [f"--{key}=given in Python: {fingerprint_of(value)}" for key, value in sorted(objects.items())]


def check_all_again(recorded: Iterable[str], given: Mapping[str, Any]) -> None:
    """A pipeline that was begun with objects is resumed with them."""
    check_again([key for key in recorded if key not in given])


def of_stage(given: Mapping[str, Any], stage: str, recorded: Iterable[str]) -> dict[str, Any]:
    """The objects of one stage, as `stages.NAME.KEY` or KEY, by what its record says it was made with.

    Args:
        given: Those of the pipeline.
        stage: Its folder; a cycle's number stands behind the name.
        recorded: Dotted names.
    """
    own = {key: f"stages.{stage.partition('-')[0]}.{key}" for key in recorded}
    there = {key: (long if long in given else key) for key, long in own.items()}
    return {key: given[where] for key, where in there.items() if where in given}
