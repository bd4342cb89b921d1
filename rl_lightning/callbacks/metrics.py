"""Emits metrics against the clocks, each time enough of the run has passed."""

from __future__ import annotations

import time
from typing import Any

import psutil
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning import ranks
from rl_lightning.callbacks.csv_logger import MetricsFile
from rl_lightning.rollout.schedule import crossed

EMISSIONS = 200  # per run, unless an interval is given
OFFLINE_EVERY = 100  # updates, in a phase without a length of its own


def emit(trainer: Trainer, metrics: dict[str, float]) -> None:
    """Writes metrics to every logger, with both clocks."""
    schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
    row = {"env_step": schedule.env_step, "update": schedule.update, **metrics}
    for logger in trainer.loggers:
        logger.log_metrics(row, step=schedule.now)


def over_ranks(metrics: dict[str, float]) -> dict[str, float]:
    """Means over the ranks that have each metric."""
    parts = ranks.gather_objects(metrics)
    if len(parts) == 1:
        return metrics
    keys = sorted({key for part in parts for key in part})
    found = {key: [part[key] for part in parts if key in part] for key in keys}
    return {key: sum(values) / len(values) for key, values in found.items()}


def offline_interval(schedule: Any) -> int:
    """Updates between two rows where no env steps: a part of the phase, or so that pretraining is seen."""
    length = None if schedule.phases is None else schedule.phases.phase.updates
    return max(1, length // EMISSIONS) if length else OFFLINE_EVERY


class EmitMetrics(Callback):
    """Collects what the data and the module measured and hands it to the loggers.

    Where the run's clock stands still, as in an offline phase or in pretraining, updates are counted instead.

    Args:
        every: Interval on the run's clock; null: a two-hundredth of the budget.
    """

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.given = every  # else the interval of an offline phase is a part of that phase
        self.seen = self.seen_update = 0
        self.latest: dict[str, float] = {}  # the last value of everything, for the progress bar
        self._file: MetricsFile | None = None
        self._place: dict[str, Any] | None = None
        self._time, self._env_step, self._update = time.monotonic(), 0, 0
        self._counting = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        if self.every is None:
            budget = schedule.run.env_steps if schedule.clock == "env_step" else schedule.run.updates
            self.every = max(1, (budget or 200_000) // EMISSIONS)
        self._file = next((logger for logger in trainer.loggers if isinstance(logger, MetricsFile)), None)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        schedule.log_every = self.every
        self._counting = False  # from the end of the first block on: a resumed run's clocks are not there yet
        if self._place is not None and self._file is not None and trainer.is_global_zero:
            self._file.cut(self._place)  # rows past the checkpoint will be written again
            self._place = None

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        now = schedule.now
        if not self._counting:
            self._counting, self._time = True, time.monotonic()
            self._env_step, self._update = schedule.env_step, schedule.update
        still = now == self.seen and schedule.clock == "env_step"
        due = crossed(self.seen, now, self.every)
        if still:
            due = crossed(self.seen_update, schedule.update, self.given or offline_interval(schedule))
        self.seen, self.seen_update = now, schedule.update
        if due:
            self.emit_now(trainer, pl_module)

    def emit_now(self, trainer: Trainer, module: Any) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        metrics = over_ranks(data.collect_metrics() | module.drain_metrics())
        metrics |= self._rates(data.schedule.env_step, data.schedule.update)
        self.latest |= metrics
        emit(trainer, metrics)

    def _rates(self, env_step: int, update: int) -> dict[str, float]:
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-9)
        rates = {
            "time/env_steps_per_s": (env_step - self._env_step) / elapsed,
            "time/updates_per_s": (update - self._update) / elapsed,
            "time/memory_gb": psutil.Process().memory_info().rss / 2**30,
        }
        if torch.cuda.is_available():
            rates["time/gpu_memory_gb"] = torch.cuda.max_memory_allocated() / 2**30
        self._time, self._env_step, self._update = now, env_step, update
        return rates

    def state_dict(self) -> dict[str, Any]:
        place = None if self._file is None else self._file.place()
        clocks = {
            "seen": self.seen,
            "seen_update": self.seen_update,
            "every": self.every,
            "given": self.given,
        }
        return {**clocks, "latest": dict(self.latest), "place": place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The interval is the one that the run began with: a larger budget does not change it."""
        self.seen, self.every = state["seen"], state["every"]
        self.seen_update, self.given = state.get("seen_update", 0), state.get("given", self.given)
        self.latest, self._place = dict(state["latest"]), state["place"]
