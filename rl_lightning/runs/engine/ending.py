"""What ended a fit: a budget, a callback, or a limit that only cut it short."""

from __future__ import annotations

from typing import Any, NamedTuple

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import EarlyStopping, Timer
from lightning.pytorch.callbacks.early_stopping import EarlyStoppingReason

from rl_lightning.clock.run_clock import RunClock


class FitEnding(NamedTuple):
    """Why a fit is over.

    Args:
        reason: In a few words, for run.json and the closing line.
        budget: A budget was reached: the run is done.
        cut: A limit of the Trainer's that is no budget ended it: it is not done.
    """

    reason: str
    budget: bool = False
    cut: bool = False


def ending(trainer: Trainer, clock: RunClock) -> FitEnding:
    """Asked after `trainer.fit` has returned."""
    if getattr(trainer, "fast_dev_run", False):
        return FitEnding("fast_dev_run", cut=True)
    run = clock.run
    budgets = {
        "env_steps": bool(run.env_steps) and clock.env_step >= (run.env_steps or 0),
        "updates": bool(run.updates) and clock.update >= (run.updates or 0),
        "all phases done": clock.phases is not None and clock.phases.finished,
        "converged": clock.converged,
        f"trainer.max_steps {trainer.max_steps}": 0 < trainer.max_steps <= trainer.global_step,
        f"trainer.max_epochs {trainer.max_epochs}": 0 < (trainer.max_epochs or -1) <= trainer.current_epoch,
        "max_hours": clock.time_exceeded,
        "trainer.max_time": any(timer.time_remaining() == 0 for timer in callbacks(trainer, Timer)),
    }
    reached = [name for name, holds in budgets.items() if holds]
    for callback in callbacks(trainer, EarlyStopping):
        if callback.stopping_reason != EarlyStoppingReason.NOT_STOPPED:
            why = callback.stopping_reason.name.lower().replace("_", " ")
            return FitEnding(f"EarlyStopping on {callback.monitor}: {why}")
    if reached:
        limited = isinstance(trainer.limit_train_batches, int) and reached[0].startswith("trainer.max_epochs")
        return FitEnding(reached[0], budget=not limited, cut=limited)
    return FitEnding("stopped by a callback")


def callbacks(trainer: Trainer, kind: type) -> list[Any]:
    return [item for item in trainer.callbacks if isinstance(item, kind)]  # type: ignore[attr-defined]
