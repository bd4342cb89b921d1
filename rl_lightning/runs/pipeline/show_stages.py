"""A pipeline shown: every stage with all its settings, or in one screen with the time that each takes here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.errors import RLError
from rl_lightning.io.text import clock_time, short
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.runs.engine.dry_run import budget_of, build_shapes, header_of, heading_of
from rl_lightning.runs.engine.own_settings import resolved
from rl_lightning.runs.engine.throughput_probe import SECONDS, Estimate, estimate
from rl_lightning.runs.pipeline.plan import Job
from rl_lightning.runs.pipeline.stage_artifact import write_artifact

Parse = Callable[[Job, Mapping[str, str]], RLCLI]  # a job, and what stands for the artifacts that it takes
Say = Callable[[str], None]
WHOLE = 9.0  # seconds of learning to look at, over all stages
COULD_NOT = (
    RLError,
    RuntimeError,
    ValueError,
    IndexError,
    KeyError,
)  # little data, weights that learned nothing


def show_settings(jobs: Sequence[Job], parse: Parse, say: Say) -> None:
    """Every stage as YAML, what differs from the defaults above it."""
    for job in once_each(jobs):
        cli = parse(job, {key: f"artifact of {source}" for key, source in job.inputs.items()})
        say(f"# stage {job.key}" + "".join(f" · {key} from {source}" for key, source in job.inputs.items()))
        say(f"{resolved(cli)}\n")


def show_overview(jobs: Sequence[Job], parse: Parse, names: list[str], say: Say) -> None:
    """One line a stage: who learns, for how long, how large it is, and the time from a probe; and their sum."""
    stages = once_each(jobs)
    taken = {source for job in jobs for source in job.inputs.values()}
    width = max(len(job.stage) for job in stages)
    say(f"{'stage':<{width}}  {'algorithm':<22}  {'budget':<16}  {'parameters':>10}  time")
    seconds: dict[str, float] = {}  # of a unit of the stage's own clock
    reasons: dict[str, list[str]] = {}  # why a time is not known: of which stages
    with TemporaryDirectory() as folder:
        for job in stages:
            cli = parse(job, {key: place_of(source, jobs, folder) for key, source in job.inputs.items()})
            probe = probe_stage(cli, job, Path(folder) / job.stage, len(stages), job.key in taken)
            if probe.seconds is None:
                reasons.setdefault(probe.line, []).append(job.stage)
            else:
                seconds[job.stage] = probe.seconds / job.budget()
            time = "-" if probe.seconds is None else clock_time(probe.seconds)
            kind = str(cli.config.model.class_path).rpartition(".")[2]
            say(f"{job.stage:<{width}}  {kind:<22}  {budget_of(cli):<16}  {size_of_model(cli):>10}  {time}")
    if seconds:
        say(sum_line(jobs, seconds))
    for reason, of in reasons.items():
        say(f"{', '.join(of)}: {reason}")
    if note := header_of(names):
        say(f"{heading_of(names)} {note}")
    say("nothing was trained, nothing is left behind; settings: --print_config")


def size_of_model(cli: RLCLI) -> str:
    """Parameters; of what could not be built, none."""
    model = getattr(cli, "model", None)
    return "-" if model is None else short(sum(weight.numel() for weight in model.parameters()))


def probe_stage(cli: RLCLI, job: Job, folder: Path, stages: int, is_taken: bool) -> Estimate:
    """How long a stage takes; what later ones need of it is left in the folder, as far as it got."""
    try:
        build_shapes(cli)
        probe = estimate(cli, min(SECONDS, WHOLE / stages), folder if is_taken else None)
        if is_taken:
            newest = CheckpointStore(folder / "checkpoints").newest_valid()[0]
            write_artifact(folder, newest / "model.ckpt", cli.plain(), {"stage": job.stage})
        return probe
    except COULD_NOT as error:
        return Estimate(None, f"not estimated: {' '.join(str(error).split())}")


def sum_line(jobs: Sequence[Job], seconds: Mapping[str, float]) -> str:
    """All jobs together, of all cycles."""
    whole = sum(seconds[job.stage] * job.budget() for job in jobs if job.stage in seconds)
    cycles = max(job.cycle for job in jobs)
    missing = [job.stage for job in once_each(jobs) if job.stage not in seconds]
    over = f" over {cycles} cycles" if cycles > 1 else ""
    without = f", without {', '.join(missing)}" if missing else ""
    return f"in all about {clock_time(whole)} here{over}{without}; evaluations not counted"


def once_each(jobs: Sequence[Job]) -> list[Job]:
    """The first job of each stage: a later cycle differs in its budget and its artifacts alone."""
    first: dict[str, Job] = {}
    for job in jobs:
        first.setdefault(job.stage, job)
    return list(first.values())


def place_of(source: str, jobs: Sequence[Job], folder: str) -> str:
    """Where the artifact of another stage's probe lies; any other artifact is where it is."""
    stages = {job.key: job.stage for job in jobs}
    return str(Path(folder) / stages[source] / "artifact") if source in stages else source
