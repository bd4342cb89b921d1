"""Runs the jobs of a pipeline: skips what is done, resumes what is not, never uses a stale artifact in silence."""

from __future__ import annotations

import copy
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rl_lightning import distributed
from rl_lightning.errors import ConfigError, RLError, StageError
from rl_lightning.io.artifact_place import ArtifactPlace, find_artifact, locate_artifact
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.plan import Job, select_jobs, set_key
from rl_lightning.runs.pipeline.stage_artifact import link_artifact, read_artifact, write_artifact

Fit = Callable[
    [Job, Path, dict[str, Any], Path | None, str], int
]  # job, folder, config, resumed from, title -> exit
Say = Callable[[str], None]


class Pipeline:
    """The jobs of one run, in its folder.

    Args:
        folder: The run's folder.
        jobs: From `make_plan`.
        fit: Trains one job in its folder, exactly resuming what it finds there; returns an exit code.
        find_checkpoint: The checkpoint of a stage's folder by name (best, last, step-N).
        say: Told of every stage that begins, ends or is skipped.
        shelf: Folder that finished artifacts are linked in; null: none.
        first: This process writes artifacts and ledger (rank 0).
    """

    def __init__(
        self,
        folder: Path,
        jobs: list[Job],
        fit: Fit,
        find_checkpoint: Callable[[Path, str], Path],
        say: Say,
        shelf: Path | None = None,
        first: bool = True,
    ) -> None:
        self.folder, self.jobs, self.fit, self.find_checkpoint = folder, jobs, fit, find_checkpoint
        self.say, self.shelf, self.first = say, shelf, first
        self.ledger = Ledger(folder / "pipeline.json")

    def run(self, begin: str | None = None, only: str | None = None) -> int:
        """All jobs, or those from a stage on, or one stage alone; the exit code of the first that stops."""
        chosen = select_jobs(self.jobs, begin, only)
        if begin is not None and self.first:
            self._discard([job.key for job in chosen])
        distributed.barrier()
        for number, job in enumerate(self.jobs, 1):
            if job not in chosen:
                continue
            title = self._title(number, job)
            if distributed.on_rank_zero(lambda job=job: self._done(job)):  # type: ignore[misc]
                self.say(f"stage {title}: done, skipped")
                continue
            code = self._run_job(job, title)
            if code:
                return code
        return 0

    def _title(self, number: int, job: Job) -> str:
        """Where the pipeline stands; with many jobs as numbers, and with what is left by the stages done so far."""
        cycles = max(each.cycle for each in self.jobs)
        if cycles == 1:
            bar = "■" * (number - 1) + "▣" + "□" * (len(self.jobs) - number)
            return f"{bar} {number}/{len(self.jobs)} {job.key}"
        left = self._left(number)
        time_left = "" if left is None else f" · about {_hours(left)} left"
        return f"cycle {job.cycle}/{cycles} · {number}/{len(self.jobs)} {job.key}{time_left}"

    def _left(self, number: int) -> float | None:
        """Seconds that the jobs from this one on will take, if each kind was done once; budgets are allowed for."""
        entries, paces = self.ledger.read(), dict[str, float]()
        for job in self.jobs:
            entry = entries.get(job.key, {})
            if entry.get("status") == "done" and "seconds" in entry:
                paces[job.stage] = float(entry["seconds"]) / job.budget()
        coming = self.jobs[number - 1 :]
        if any(job.stage not in paces for job in coming):
            return None
        return sum(paces[job.stage] * job.budget() for job in coming)

    def _discard(self, keys: list[str]) -> None:
        """Forgets jobs that are to be done again; their folders are kept aside, never deleted."""
        for key in keys:
            old = self.folder / key
            if old.exists():
                number = 1
                while (self.folder / f"{key}.old{number}").exists():
                    number += 1
                shutil.move(old, self.folder / f"{key}.old{number}")
        self.ledger.forget(keys)

    def _done(self, job: Job) -> bool:
        entry = self.ledger.read().get(job.key, {})
        if entry.get("status") != "done":
            return False
        again = f"Do it again with: --from {job.key}"
        if entry.get("config") != job.hash():
            raise ConfigError(
                f"stage {job.key} was finished with another config: its artifact is stale. {again}"
            )
        for dotted, source in job.inputs.items():
            if entry.get("inputs", {}).get(dotted) != self._artifact_hash(source, dotted):
                raise ConfigError(
                    f"stage {job.key} was made from another {dotted}: its artifact is stale. {again}"
                )
        read_artifact(self.folder / job.key / "artifact")
        return True

    def _artifact(self, source: str, dotted: str = "") -> Path:
        inside = self.folder / source / "artifact"
        if any(source == job.key for job in self.jobs):
            return inside
        return outside_artifact(source, dotted).path.resolve()

    def _artifact_hash(self, source: str, dotted: str) -> str:
        place = self._artifact(source, dotted)
        if not place.is_file():
            read_artifact(place)  # whole, or refused
        return ArtifactPlace(place, place).digest

    def _run_job(self, job: Job, title: str) -> int:
        folder = self.folder / job.key
        config, inputs = copy.deepcopy(job.config), {}
        for dotted, source in job.inputs.items():
            inputs[dotted] = self._artifact_hash(source, dotted)
            set_key(config, dotted, str(self._artifact(source, dotted)))
        before = self._artifact(job.warm_start_from) if job.warm_start_from else None
        self._check_begun(job, inputs)
        if self.first:
            folder.mkdir(exist_ok=True)
            self.ledger.set(
                job.key, status="running", config=job.hash(), identity=job.identity(), inputs=inputs
            )
        self.say(f"stage {title}")
        began = time.monotonic()
        try:
            code = self.fit(job, folder, config, before, title)
        except RLError as error:
            if self.first:
                self.ledger.set(job.key, status="failed", error=str(error).splitlines()[0])
            advice = f"the stages before it are kept; resume with: rl resume {self.folder.name}"
            failure = StageError(f"stage {job.key} failed: {error}\n{advice}")
            failure.exit_code = error.exit_code
            raise failure from error
        finally:
            if self.first:
                earlier = float(self.ledger.read()[job.key].get("seconds") or 0.0)  # before it was stopped
                self.ledger.set(job.key, seconds=round(earlier + time.monotonic() - began, 1))
        if self.first:
            self._finish(job, folder, config) if code == 0 else self.ledger.set(job.key, status="interrupted")
        distributed.barrier()  # the others must not look for an artifact before it is there
        return code

    def _check_begun(self, job: Job, inputs: dict[str, str]) -> None:
        """A stage that was begun is resumed as it began, or not at all: else rows and weights of two configs mix."""
        entry = self.ledger.read().get(job.key, {})
        if not entry or not (self.folder / job.key / "checkpoints").is_dir():
            return
        if entry.get("identity", job.identity()) != job.identity() or entry.get("inputs", inputs) != inputs:
            raise ConfigError(
                f"stage {job.key} was begun with another config or from other artifacts. Resume it as it began with: "
                f"rl resume {self.folder.name}\nor begin it again with: --from {job.key}"
            )

    def _finish(self, job: Job, folder: Path, config: dict[str, Any]) -> None:
        checkpoint = self.find_checkpoint(folder, job.artifact)
        about = {"stage": job.stage, "cycle": job.cycle, "run": self.folder.name, "config": job.hash()}
        digest = write_artifact(folder, checkpoint, resolved(folder, config), about)
        self.ledger.set(job.key, status="done", artifact=f"{job.key}/artifact", sha256=digest)
        if self.shelf is not None:
            link_artifact(folder / "artifact", self.shelf, f"{self.folder.name}-{job.key}", digest)


def outside_artifact(source: str, dotted: str) -> ArtifactPlace:
    """An artifact that no stage of this pipeline made; of another pipeline, the last that fits the key it is for."""
    wanted = dotted.rpartition(".")[2].removesuffix("_from").removeprefix("init_")
    return find_artifact(source, wanted) or locate_artifact(source)


def resolved(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    """The config that a stage was trained with, flags and defaults in it; the plan's where it left none."""
    try:
        written = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return config
    return written if isinstance(written, dict) else config


def _hours(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02d} h" if minutes >= 60 else f"{max(1, minutes)} min"
