"""Metrics against the run's clocks: training rows each time enough of the run has passed, evaluations at once."""

from __future__ import annotations

import time
from typing import Any

import psutil
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from rl_lightning import distributed
from rl_lightning.clock.run_clock import RunClock, crossed_multiple
from rl_lightning.trainer.access import clock_of, data_of

EMISSIONS = 200  # per run, unless an interval is given
PER_EVALUATION = 10  # where a run has no budget of its own
OFFLINE_EVERY = 100  # updates, in a phase without a length of its own


def emit(trainer: Trainer, metrics: dict[str, float]) -> None:
    """Writes metrics to every logger, at the run's clock; callbacks find them in `callback_metrics`."""
    clock = clock_of(trainer)
    row = {"env_step": clock.env_step, "update": clock.update, **metrics}
    for logger in trainer.loggers:
        logger.log_metrics(row, step=clock.now)
        if isinstance(logger, CSVLogger):
            logger.save()  # it keeps rows to itself until it is told to
    values = torch.tensor(list(metrics.values()), dtype=torch.float32).unbind()  # one tensor, many views
    tensors = dict(zip(metrics, values, strict=True))
    trainer.callback_metrics.update(tensors)
    if trainer.loggers:
        trainer.logged_metrics.update(tensors)


def over_ranks(metrics: dict[str, float]) -> dict[str, float]:
    """Means over the ranks that have each metric."""
    parts = distributed.gather_objects(metrics)
    if len(parts) == 1:
        return metrics
    keys = sorted({key for part in parts for key in part})
    values = {key: [part[key] for part in parts if key in part] for key in keys}
    return {key: sum(several) / len(several) for key, several in values.items()}


def offline_interval(clock: RunClock) -> int:
    """Updates between two rows where no env steps: a part of the phase, or so that pretraining is seen."""
    length = None if clock.phases is None else clock.phases.phase.updates
    return max(1, length // EMISSIONS) if length else OFFLINE_EVERY


def usual_interval(clock: RunClock) -> int:
    """A two-hundredth of the budget, or a tenth of the way between two evaluations."""
    budget = (
        clock.run.env_steps if clock.clock_name == "env_step" else clock.run.updates or clock.limits.updates
    )
    if budget is None and clock.run.eval_every and (clock.limits.updates or clock.limits.epochs):
        return max(1, clock.run.eval_every // PER_EVALUATION)
    return max(1, (budget or 200_000) // EMISSIONS)


class MetricsLogger(Callback):
    """Collects what the data and the module measured and hands it to the loggers; evaluations, too.

    Where the run's clock stands still, as in an offline phase or in pretraining, updates are counted instead. Every
    module of ours brings one along (`configure_callbacks`), unless the Trainer has one.

    Args:
        every: Interval on the run's clock; null: a two-hundredth of the budget.
    """

    def __init__(self, every: int | None = None) -> None:
        self.every = every
        self.given = every  # else the interval of an offline phase is a part of that phase
        self.seen = self.seen_update = 0
        self.latest: dict[str, float] = {}  # the last value of everything, for the progress bar
        self._file: Any = None
        self._place: dict[str, Any] | None = None
        self._time, self._env_step, self._update = time.monotonic(), 0, 0
        self._counting = False
        self._process: psutil.Process

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self._process = psutil.Process()
            self.every = self.every or usual_interval(clock_of(trainer))
            self._file = next((logger for logger in trainer.loggers if hasattr(logger, "cut")), None)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Before the first epoch is planned: blocks end where metrics are emitted."""
        clock_of(trainer).log_every = self.every

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._counting = False  # from the first block on: a resumed run's clocks are not there yet
        if self._place is not None and self._file is not None and trainer.is_global_zero:
            self._file.cut(self._place)  # rows past the checkpoint will be written again
            self._place = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        if not self._counting:
            clock = clock_of(trainer)
            self._counting, self._time = True, time.monotonic()
            self._env_step, self._update = clock.env_step, clock.update

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        clock = clock_of(trainer)
        now = clock.now
        still = now == self.seen and clock.clock_name == "env_step"
        due = crossed_multiple(self.seen, now, self.every)
        if still:
            due = crossed_multiple(self.seen_update, clock.update, self.given or offline_interval(clock))
        self.seen, self.seen_update = now, clock.update
        if due:
            self.emit_now(trainer, pl_module)

    def emit_now(self, trainer: Trainer, module: Any) -> None:
        """A row of all that was measured since the last one."""
        data = data_of(trainer)
        metrics = over_ranks(data.collect_metrics() | module.pop_metrics())
        metrics |= module.settings_now() | self._rates(data.clock.env_step, data.clock.update)
        self.latest |= metrics
        emit(trainer, metrics)
        bar = {name: metrics[name] for name in ("collect/return", "train/loss") if name in metrics}
        trainer.progress_bar_metrics.update(bar)  # `self.log` would cost more than all the rest

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._evaluation(trainer, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._evaluation(trainer, pl_module)

    def _evaluation(self, trainer: Trainer, module: Any) -> None:
        """Sums an evaluation up; in a fit its row is written at the run's clock, else Lightning returns it."""
        metrics = module.summarize_evaluation()
        if not metrics:
            return
        fitting = trainer.state.fn == "fit"
        if fitting:
            clock_of(trainer).evaluated_at = clock_of(trainer).now
            emit(trainer, metrics)
        if not trainer.barebones:
            shown = [name for name in ("eval/return", "eval/score") if name in metrics]
            rest = {name: value for name, value in metrics.items() if name not in shown}
            module.log_dict({name: metrics[name] for name in shown}, prog_bar=True, logger=not fitting)
            module.log_dict(rest, logger=not fitting)

    def _rates(self, env_step: int, update: int) -> dict[str, float]:
        now = time.monotonic()
        elapsed = max(now - self._time, 1e-9)
        rates = {"time/memory_gb": self._process.memory_info().rss / 2**30}
        if (env_step, update) != (self._env_step, self._update):  # else no time was spent on them: at the end
            rates["time/env_steps_per_s"] = (env_step - self._env_step) / elapsed
            rates["time/updates_per_s"] = (update - self._update) / elapsed
        if torch.cuda.is_available():
            rates["time/gpu_memory_gb"] = torch.cuda.max_memory_allocated() / 2**30
        self._time, self._env_step, self._update = now, env_step, update
        return rates

    def state_dict(self) -> dict[str, Any]:
        place = None if self._file is None else self._file.place()
        names = ("seen", "seen_update", "every", "given")
        return {**{name: getattr(self, name) for name in names}, "latest": dict(self.latest), "place": place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The interval is the one that the run began with: a larger budget does not change it."""
        self.seen, self.every = state["seen"], state["every"]
        self.seen_update, self.given = state["seen_update"], state["given"]
        self.latest, self._place = dict(state["latest"]), state["place"]
