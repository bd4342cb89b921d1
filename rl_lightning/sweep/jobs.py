"""One trial at work: a training per seed, each a process that is started, gone on with, watched and stopped."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rl_lightning.errors import RLError
from rl_lightning.io.expressions import Expression
from rl_lightning.runs.store.run_folder import Run, alive, logs_root
from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.study import SweepTrial
from rl_lightning.sweep.trial_scores import history, metrics_file, reduced

HOPELESS = (2, 3)  # a wrong config or missing data: the same again would end the same
DIVERGED, NO_CHECKPOINT = 5, 4
RL = [sys.executable, "-m", "rl_lightning.cli"]


@dataclass(frozen=True)
class PlannedRun:
    """One training of a trial.

    Args:
        seed: Its seed.
        name: Of its run.
        config: Its config file.
        pipeline: Whether that has stages.
        stage: Of a pipeline: whose metrics count.
    """

    seed: int
    name: str
    config: Path
    pipeline: bool = False
    stage: str | None = None

    @property
    def run(self) -> Run:
        return Run(logs_root() / self.name)

    @property
    def metrics(self) -> Path:
        return metrics_file(self.run, self.stage)


@dataclass(frozen=True)
class TrialResult:
    """How a trial ended.

    Args:
        state: complete, pruned or fail.
        score: Of a complete one.
        about: What else is kept.
        violations: Of each constraint.
        code: Exit code of a training that failed.
    """

    state: str
    score: float | None
    about: dict[str, Any]
    violations: dict[str, float]
    code: int = 0


class TrialJob:
    """Trains the seeds of a trial one after the other.

    Args:
        trial: The claimed trial.
        runs: What is to be trained.
        definition: What the sweep is.
        logs: Folder for what the trainings print.
        words: More words for their command lines.
        program: What trains.
    """

    def __init__(
        self, trial: SweepTrial, runs: list[PlannedRun], definition: SweepDefinition, logs: Path,
        words: list[str], program: list[str],
    ) -> None:  # fmt: skip
        self.trial, self.runs, self.definition = trial, runs, definition
        self.logs, self.words, self.program = logs, words, program
        self.at = 0
        self.attempts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.pruned = self.stopped = False
        self._seen = 0.0

    def poll(self) -> TrialResult | None:
        """Looks after the training that runs and starts the next; the trial's end once it has come."""
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                if self.at == 0:
                    self._watch()
                return None
            self.process = None
            ending = self._ended(code)
            if ending is not None or self.stopped:
                return ending
        while self.at < len(self.runs) and not self.stopped:
            if self._start(self.runs[self.at]):
                return None
            self.at += 1
        return None if self.stopped else self._complete()

    @property
    def idle(self) -> bool:
        return self.process is None

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Asks the training to save and end."""
        self.stopped = True
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def _watch(self) -> None:
        """Tells Optuna of new evaluations of the first seed, and ends the trial if it asks for that."""
        path = self.runs[0].metrics
        if self.pruned or self.definition.pruner["name"] == "none" or not path.is_file():
            return
        changed = path.stat().st_mtime
        if changed == self._seen:
            return
        self._seen = changed
        values = history(path).get(self.definition.metric, [])
        for value in values[self.trial.reported :]:
            self.trial.report(value)
            if self.trial.should_prune() and self.process is not None:
                self.pruned = True
                self.process.send_signal(signal.SIGTERM)
                return

    def _ended(self, code: int) -> TrialResult | None:
        if self.pruned:
            return self._ending("pruned", None)
        if code == 0:
            self.at += 1
            self.attempts = 0
            return None
        if code == DIVERGED:  # as bad as can be: the sampler is to stay away from here
            return self._ending("pruned", None, reason="diverged")
        if self.stopped:
            return None
        if code in HOPELESS or self.attempts >= self.definition.retries:
            return self._ending("fail", None, code, reason=self._reason(code))
        self.attempts += 1
        if code == NO_CHECKPOINT:
            clear(self.runs[self.at].run)
        return None

    def _reason(self, code: int) -> str:
        """The last error that the training printed."""
        ended = f"signal {-code}" if code < 0 else f"exit {code}"
        with contextlib.suppress(OSError):
            lines = self._log(self.runs[self.at]).read_text(errors="replace").splitlines()
            errors = [line for line in lines if line.startswith("error: ")]
            return f"{errors[-1][7:]} ({ended})" if errors else ended
        return ended

    def _complete(self) -> TrialResult:
        histories = [history(planned.metrics) for planned in self.runs]
        definition = self.definition
        scores = [
            reduced(h.get(definition.metric, []), definition.score, definition.direction) for h in histories
        ]
        if any(score is None for score in scores):
            if self._diverged():
                return self._ending("pruned", None, reason="diverged")
            return self._ending("fail", None, reason=f"a run has no value of {definition.metric}")
        known = [score for score in scores if score is not None]
        violations = {
            text: max(Expression(text).violation(h) for h in histories) for text in definition.constraints
        }
        return TrialResult(
            "complete", sum(known) / len(known), {**self._about(), "scores": known}, violations
        )

    def _diverged(self) -> bool:
        return any(_status(planned.run) == "diverged" for planned in self.runs)

    def _ending(self, state: str, score: float | None, code: int = 0, **about: Any) -> TrialResult:
        return TrialResult(state, score, {**self._about(), **about}, {}, code)

    def _about(self) -> dict[str, Any]:
        return {
            "runs": [planned.name for planned in self.runs],
            "seeds": [planned.seed for planned in self.runs],
        }

    def _log(self, planned: PlannedRun) -> Path:
        return self.logs / f"{planned.name}.log"

    def _start(self, planned: PlannedRun) -> bool:
        """Starts a training or resumes it; False if it is done already."""
        words = self._words(planned)
        if words is None:
            return False
        self.logs.mkdir(parents=True, exist_ok=True)
        environment = {k: v for k, v in os.environ.items() if k not in ("RL_RUN_DIR", "LOCAL_RANK", "RANK")}
        environment["RL_LOGS"] = str(logs_root().resolve())
        with open(self._log(planned), "ab") as log:
            self.process = subprocess.Popen(
                [*self.program, *words], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, env=environment, start_new_session=True, preexec_fn=end_with_parent(),
            )  # fmt: skip
        return True

    def _words(self, planned: PlannedRun) -> list[str] | None:
        run = planned.run
        status = _status(run)
        if status in ("finished", "diverged"):
            return None
        group = f"{self.definition.name}-{self.trial.slot:03d}"
        fit = ["fit", "--config", str(planned.config), "--name", planned.name, "--group", group, *self.words]
        if not planned.pipeline:
            fit += [f"--tags=[{self.definition.name}]"]
            if run.checkpoints():
                return ["resume", planned.name, *self.words]
        if run.folder.exists() and not planned.pipeline:
            clear(run)
        return fit


def _status(run: Run) -> str:
    try:
        return str(run.read().get("status", ""))
    except RLError:
        return ""


def busy(planned: PlannedRun) -> bool:
    """Whether a training that lost its parent still writes into this run."""
    try:
        record = planned.run.read()
    except RLError:
        return False
    return record.get("status") in ("running", "started") and alive(record)


def clear(run: Run) -> None:
    """Removes a run of ours that ended before its first checkpoint, or whose checkpoints cannot be read."""
    if run.folder.is_dir() and not run.folder.is_symlink():
        shutil.rmtree(run.folder)


def end_with_parent() -> Callable[[], None] | None:
    """On Linux a training is told to save and end when its sweep is killed."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG

    return ask
