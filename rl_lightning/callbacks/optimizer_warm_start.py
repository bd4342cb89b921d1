"""Starting from another run's weights or optimizers, and learning rates that a resumed run is to take anew."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.optim import Optimizer

from rl_lightning.errors import ResumeError


class OptimizerWarmStart(Callback):
    """Loads optimizer states once the optimizers exist; their learning rates are the config's, as its record says.

    Stands before the callback that saves, so that the first checkpoint already holds them.

    Args:
        optimizer_states: One per optimizer, in order.
    """

    def __init__(self, optimizer_states: list[dict[str, Any]]) -> None:
        self.optimizer_states = optimizer_states

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(self.optimizer_states) != len(trainer.optimizers):
            raise ResumeError(
                f"the checkpoint has {len(self.optimizer_states)} optimizers, this run {len(trainer.optimizers)}"
            )
        for optimizer, state in zip(trainer.optimizers, self.optimizer_states, strict=True):
            wanted = [group["lr"] for group in optimizer.param_groups]
            try:
                optimizer.load_state_dict(state)
            except (ValueError, KeyError) as error:
                raise ResumeError(f"the checkpoint's optimizer does not fit this model ({error})") from None
            set_learning_rates(optimizer, wanted)


class LearningRateReset(Callback):
    """Gives every optimizer the learning rates that the config asks for, instead of the checkpoint's."""

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        configured = pl_module.configure_optimizers() or []
        fresh = configured if isinstance(configured, list) else [configured]
        for optimizer, wanted in zip(trainer.optimizers, fresh, strict=True):
            set_learning_rates(optimizer, [group["lr"] for group in wanted.param_groups])


def set_learning_rates(optimizer: Optimizer, rates: list[float]) -> None:
    """Of each group, also as what a schedule starts from."""
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = group["initial_lr"] = rate
