"""Emits metrics against the clocks, each time enough of the run has passed."""

from __future__ import annotations

import time
from typing import Any

import psutil
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.rollout.schedule import crossed

EMISSIONS = 200  # per run, unless an interval is given


def emit(trainer: Trainer, metrics: dict[str, float]) -> None:
    """Writes metrics to every logger, with both clocks."""
    schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
    row = {"env_step": schedule.env_step, "update": schedule.update, **metrics}
    for logger in trainer.loggers:
        logger.log_metrics(row, step=schedule.now)


class EmitMetrics(Callback):
    """Collects what the data and the module measured and hands it to the loggers.

    Args:
        every: Interval on the run's clock; null: a two-hundredth of the budget.
    """

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.seen = 0
        self.latest: dict[str, float] = {}  # the last value of everything, for the progress bar
        self._time, self._env_step, self._update = time.monotonic(), 0, 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.every is None:
            run = trainer.datamodule.schedule.run  # type: ignore[attr-defined]
            budget = run.env_steps if trainer.datamodule.schedule.clock == "env_step" else run.updates  # type: ignore[attr-defined]
            self.every = max(1, (budget or 200_000) // EMISSIONS)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        self._time, self._env_step, self._update = time.monotonic(), schedule.env_step, schedule.update

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        due = crossed(self.seen, schedule.now, self.every) or schedule.finished
        self.seen = schedule.now
        if due:
            metrics = trainer.datamodule.collect_metrics() | pl_module.drain_metrics()  # type: ignore[attr-defined]
            metrics |= self._rates(schedule.env_step, schedule.update)
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
        return {"seen": self.seen, "latest": dict(self.latest)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen, self.latest = state["seen"], dict(state["latest"])
