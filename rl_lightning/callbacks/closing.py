"""What a finished run still says, after its last checkpoint: a run that is continued never knows of it."""

from __future__ import annotations

import sys
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.callbacks.checkpoint import SaveCheckpoints
from rl_lightning.callbacks.control import Control
from rl_lightning.callbacks.evaluation import Evaluate
from rl_lightning.callbacks.metrics import EmitMetrics


class Close(Callback):
    """Emits the remaining metrics and evaluates once more, if the run ended between two cadence points.

    Args:
        metrics: Emits what is left.
        evaluation: Plays the closing evaluation.
        saving: Keeps the weights if that evaluation is the best.
        control: Knows why the run ends; a signal leaves no time for this.
    """

    def __init__(
        self, metrics: EmitMetrics, evaluation: Evaluate, saving: SaveCheckpoints, control: Control
    ) -> None:
        self.metrics, self.evaluation, self.saving, self.control = metrics, evaluation, saving, control

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """A run that was stopped between its last checkpoint and its end has only this left to do."""
        if trainer.datamodule.schedule.finished:  # type: ignore[attr-defined]
            trainer.should_stop = True
            self._close(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        if trainer.should_stop and self.control.caught is None:
            self._close(trainer, pl_module)

    def _close(self, trainer: Trainer, pl_module: Any) -> None:
        schedule = trainer.datamodule.schedule  # type: ignore[attr-defined]
        self.metrics.emit_now(trainer, pl_module)
        if schedule.run.eval_every is not None and self.evaluation.last_at != schedule.now:
            self.evaluation.evaluate(trainer, pl_module, final=True)
            if self.evaluation.is_best:
                self.saving.save_best(trainer, pl_module)
        if trainer.is_global_zero and (caution := pl_module.caution()):
            print(f"note: {caution}", file=sys.stderr, flush=True)  # noqa: T201
