"""Gradients that are looked at before they move anything, and gathered over several updates."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.algorithms.step import GradientGuard, Stepper
from rl_lightning.errors import ConfigError
from rl_lightning.trainer.metrics_logger import emit


class NonFiniteGuard(Callback):
    """Looks at every gradient: one that is not finite ends the run, or is left out and counted.

    The count is the metric `train/skipped_steps`. With `accumulate_grad_batches: 4` the optimizer moves after every
    fourth gradient, by their mean: batches four times as large in a quarter of the memory. What is gathered is saved.

    Args:
        nonfinite: What a loss or gradient that is not finite does: stop the run, or skip its step.
        max_skips: Steps skipped in a row before the run ends after all.
        accumulate_grad_batches: Gradients averaged before each move of the optimizer.
    """

    def __init__(
        self, nonfinite: str = "stop", max_skips: int = 100, accumulate_grad_batches: int = 1
    ) -> None:
        if nonfinite not in ("stop", "skip"):
            raise ConfigError(f"NonFiniteGuard.nonfinite is {nonfinite!r}; choose stop or skip")
        if accumulate_grad_batches < 1 or max_skips < 1:
            raise ConfigError(
                "NonFiniteGuard.accumulate_grad_batches and NonFiniteGuard.max_skips must be at least 1"
            )
        self.guard = GradientGuard(nonfinite == "skip", accumulate_grad_batches, max_skips)
        self._told = 0
        self._state: dict[str, Any] | None = None
        self._optimizers: list[Any] = []

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Here, because the optimizers exist only now."""
        self._optimizers = trainer.optimizers
        self.guard.names = {id(p): name for name, p in pl_module.named_parameters()}
        if self._state is not None:
            self.guard.load(self._state, self._optimizers)
            self._state = None
        self._told = self.guard.skipped
        pl_module.stepper = self.guard
        pl_module.watch_backward(trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        if self.guard.skipped != self._told:
            self._told = self.guard.skipped
            emit(trainer, {"train/skipped_steps": float(self.guard.skipped)})

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        pl_module.stepper = Stepper()

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        pl_module.stepper = Stepper()

    def state_dict(self) -> dict[str, Any]:
        return self.guard.state(self._optimizers)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state = state
