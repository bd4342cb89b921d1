"""A worker of a sweep: claims trials, keeps so many of them going, and leaves everything so that it can be resumed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.io.text import clock_time
from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.jobs import RL, PlannedRun, TrialJob, TrialResult, busy
from rl_lightning.sweep.outcome import best_row, shown_params
from rl_lightning.sweep.study import BEAT, SweepTrial, TrialLedger

POLL = 0.1
Plan = Callable[[SweepTrial], list[PlannedRun]]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class SweepWorker:
    """Works on a sweep until no trial waits any more, or a signal or the clock ends it.

    Args:
        definition: What the sweep is.
        ledger: Its trials.
        plan: Writes the configs of a trial and says what is to be trained.
        folder: The sweep's folder.
        say: Told of every trial that begins or ends.
        words: More words for the trainings' command lines.
        seconds: How long to work; None for no limit.
        program: What trains; by default `rl`.
    """

    def __init__(
        self, definition: SweepDefinition, ledger: TrialLedger, plan: Plan, folder: Path,
        say: Callable[[str], None], words: list[str] | None = None, seconds: float | None = None,
        program: list[str] | None = None,
    ) -> None:  # fmt: skip
        self.definition, self.ledger, self.plan, self.folder, self.say = definition, ledger, plan, folder, say
        self.words, self.seconds, self.program = words or [], seconds, program or RL
        self.jobs: list[TrialJob] = []
        self.waiting: list[tuple[SweepTrial, list[PlannedRun]]] = []  # their old trainings still save
        self.caught: list[int] = []
        self.error: ConfigError | None = None
        self._began = self._beaten = time.monotonic()

    def run(self) -> int:
        """0 when no trial is left for this worker; 130 or 143 after a signal."""
        previous = {number: signal.signal(number, self._catch) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while self._turn():
                time.sleep(POLL)
        finally:
            for job in self.jobs:
                job.stop(signal.SIGKILL)
                self.ledger.release(job.trial)
            for number, handler in previous.items():
                signal.signal(number, handler)
        if self.error is not None:
            raise self.error
        return CODES.get(signal.Signals(self.caught[0]), 143) if self.caught else 0

    @property
    def _ending(self) -> bool:
        late = self.seconds is not None and time.monotonic() - self._began > self.seconds
        return bool(self.caught) or late or self.error is not None

    def _catch(self, number: int, frame: Any) -> None:
        """The first signal lets trainings save; the second does not."""
        self.caught.append(number)

    def _turn(self) -> bool:
        """One look at everything; False when there is nothing left to do."""
        if self._ending:
            self._let_go()
        else:
            self._fill()
        for job in list(self.jobs):
            ending = job.poll()
            if ending is not None:
                self.jobs.remove(job)
                self._finish(job, ending)
            elif job.stopped and job.idle:
                self.jobs.remove(job)
                self.ledger.release(job.trial)
        if not self.jobs and not self._ending:
            self._fill()
        if time.monotonic() - self._beaten > BEAT:
            self._beaten = time.monotonic()
            for job in self.jobs:
                self.ledger.beat(job.trial)
        return bool(self.jobs or self.waiting)

    def _let_go(self) -> None:
        hard = len(self.caught) > 1
        for job in self.jobs:
            if not job.stopped or hard:
                job.stop(signal.SIGKILL if hard else signal.SIGTERM)
        for trial, _ in self.waiting:
            self.ledger.release(trial)
        self.waiting = []

    def _fill(self) -> None:
        for entry in list(self.waiting):
            if not any(busy(planned) for planned in entry[1]):
                self.waiting.remove(entry)
                self._begin(*entry)
        while len(self.jobs) + len(self.waiting) < self.definition.jobs:
            trial = self.ledger.claim()
            if trial is None:
                return
            runs = self.plan(trial)
            if any(busy(planned) for planned in runs):
                self.waiting.append((trial, runs))
            else:
                self._begin(trial, runs)

    def _begin(self, trial: SweepTrial, runs: list[PlannedRun]) -> None:
        self.say(f"trial {trial.slot}: {shown_params(trial.params)}")
        self.jobs.append(
            TrialJob(trial, runs, self.definition, self.folder / "logs", self.words, self.program)
        )

    def _finish(self, job: TrialJob, ending: TrialResult) -> None:
        recorded = self.ledger.finish(job.trial, ending.state, ending.score, ending.about, ending.violations)
        if not recorded:
            self.say(f"trial {job.trial.slot}: was taken over by another worker meanwhile")
            return
        rows = self.ledger.rows()
        reason = ending.about.get("reason")
        ended = f"{ending.state}: {reason}" if reason else ending.state
        result = f"{ending.score:.6g}" if ending.score is not None else ended
        broken = [text for text, amount in ending.violations.items() if amount > 0]
        self.say(
            f"trial {job.trial.slot}: {result}"
            + (f" (not {broken[0]})" if broken else "")
            + f" · {self._standing(rows)}"
        )
        none_worked = not any(row.state in ("complete", "pruned") for row in rows)
        if ending.code == 2 and none_worked:
            self.error = ConfigError(f"the first trial was refused, and so would be the others: {reason}")

    def _standing(self, rows: list[Any]) -> str:
        """How many are done, which is the best, and how long the rest will take."""
        over = [row for row in rows if row.state in ("complete", "pruned", "fail")]
        best = best_row(rows, self.definition.direction)
        parts = [f"{len(over)} of {len(rows)}"]
        if best is not None:
            parts.append(f"best {best.score:.6g} (trial {best.slot})")
        times = [row.seconds for row in over if row.seconds is not None]
        left = len(rows) - len(over)
        if times and left:
            seconds = int(sum(times) / len(times) * left / max(1, self.definition.jobs))
            parts.append(f"about {clock_time(seconds)} left")
        return " · ".join(parts)
