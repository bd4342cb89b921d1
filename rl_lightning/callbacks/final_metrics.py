"""What a finished run still says, after its last checkpoint: a run that is continued never knows of it."""

from __future__ import annotations

import sys
from typing import Any

from lightning.pytorch import Callback, Trainer

from rl_lightning.callbacks.run_controller import RunController
from rl_lightning.trainer.metrics_logger import MetricsLogger


class FinalMetrics(Callback):
    """Emits the metrics that remain when a run ends between two emissions.

    Args:
        metrics: Emits what is left.
        control: Knows why the run ends; a signal leaves no time for this.
    """

    def __init__(self, metrics: MetricsLogger, control: RunController) -> None:
        self.metrics, self.control = metrics, control
        self.emitted = False

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self.emitted = False

    def on_validation_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Before the closing evaluation, which comes because the run stops; a regular one is not the end.

        A model is saved after it, not before: there the rest is emitted when all is saved.
        """
        closing = trainer.should_stop and not pl_module.clock.epoch_over
        if closing and pl_module.evaluated_on == "episodes":
            self._emit(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        self._emit(trainer, pl_module)
        if self.control.caught is None and trainer.is_global_zero and (caution := pl_module.caution()):
            print(f"note: {caution}", file=sys.stderr, flush=True)  # noqa: T201

    def _emit(self, trainer: Trainer, module: Any) -> None:
        if not self.emitted and self.control.caught is None:
            self.emitted = True
            self.metrics.emit_now(trainer, module)
