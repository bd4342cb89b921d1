"""What a later stage would refuse of recorded data is refused before the first one has run for hours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rl_lightning.errors import ConfigError, DataError, ResumeError, RLError
from rl_lightning.runs.config.swapped import known
from rl_lightning.runs.pipeline.plan import Job
from rl_lightning.runs.recording.missing import record_missing_data
from rl_lightning.types import EnvSpec

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI

SHAPES = ("obs_shape", "action_kind", "action_shape", "action_sizes")


def check_data(jobs: Sequence[Job], parse: Callable[[Job], RLCLI], said: set[str]) -> None:
    """Makes data and model of every stage that learns from recorded rows, in shapes alone, as the stage itself will.

    Args:
        jobs: Those that are still to be done.
        parse: A stage's config with something in the place of each artifact.
        said: Filled with what is said, so that no stage says it again.
    """
    from rl_lightning.datamodules.offline_data import OfflineData

    stages: dict[str, StageRows] = {}
    said.clear()
    for job in jobs:
        if job.stage in stages:  # a later cycle differs in its artifacts alone
            continue
        cli = parse(job)
        kind = known(cli.config.data.class_path)
        if kind is None or not issubclass(kind, OfflineData):
            continue
        record_missing_data(cli.config)
        if not built(job, cli):
            continue
        check_inputs(job, cli.datamodule, stages)
        for note in cli.datamodule.notes():
            if note not in said:
                print(f"note: {note}", file=sys.stderr)
                said.add(note)
        stages[job.stage] = StageRows(cli.datamodule.spec, dict(vars(cli.data_arguments())))


class StageRows(NamedTuple):
    """What is kept of a stage: not its rows."""

    spec: EnvSpec
    settings: dict[str, Any]


def built(job: Job, cli: RLCLI) -> bool:
    """Whether data and model could be made without the artifacts that the stage takes."""
    from rl_lightning.runs.engine.dry_run import build_shapes

    try:
        build_shapes(cli)
    except (ConfigError, DataError, ResumeError) as error:
        if any(f"artifact of {source}" in str(error) for source in job.inputs.values()):
            return False  # it reads an artifact while it is made
        raise of_stage(job, error) from error
    return True


def of_stage(job: Job, error: RLError) -> RLError:
    """The same error, with the stage and its own flags."""
    text = str(error).replace("--data.", f"--stages.{job.stage}.data.")
    text = text.replace("--model.", f"--stages.{job.stage}.model.")
    return type(error)(f"stage {job.stage}: {text}\nnothing was trained")


def check_inputs(job: Job, data: Any, stages: Mapping[str, StageRows]) -> None:
    """Rows of one stage must be what the models of the stages before it were learned from."""
    for dotted, source in job.inputs.items():
        before = stages.get(source.partition("-")[0])
        if before is None:
            continue
        differing = difference(before.spec, data.spec)
        if differing:
            raise ConfigError(
                f"stage {job.stage}: {dotted} comes from stage {source}, whose data have {differing[0]}; its own have "
                f"{differing[1]}. Give both the same data.dataset\nnothing was trained"
            )
        if dotted.endswith(".dynamics") and hasattr(data, "check_learned_as"):
            try:
                data.check_learned_as(before.settings, f"stage {source}")
            except ConfigError as error:
                raise of_stage(job, error) from error


def difference(before: EnvSpec, own: EnvSpec) -> tuple[str, str] | None:
    """What two stages' rows are, where they are not the same."""
    for name in SHAPES:
        there, here = getattr(before, name), getattr(own, name)
        if there != here:
            word = name.replace("_", " ")
            return f"{word} {shown(there)}", shown(here)
    bounds = [(spec.action_low, spec.action_high) for spec in (before, own)]
    if bounds[0] != bounds[1]:
        return f"action bounds {shown(bounds[0])}", shown(bounds[1])
    return None


def shown(value: Any) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)
