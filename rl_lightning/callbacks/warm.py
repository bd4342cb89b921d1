"""Starting from another run's weights or optimizers, and learning rates that a resumed run is to take anew."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.errors import ResumeError


class WarmOptimizers(Callback):
    """Loads optimizer states once the optimizers exist.

    Args:
        states: One per optimizer, in order.
    """

    def __init__(self, states: list[dict[str, Any]]) -> None:
        self.states = states

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(self.states) != len(trainer.optimizers):
            raise ResumeError(
                f"the checkpoint has {len(self.states)} optimizers, this run {len(trainer.optimizers)}"
            )
        for optimizer, state in zip(trainer.optimizers, self.states, strict=True):
            try:
                optimizer.load_state_dict(state)
            except (ValueError, KeyError) as error:
                raise ResumeError(f"the checkpoint's optimizer does not fit this model ({error})") from None


class ResetLR(Callback):
    """Gives every optimizer the learning rates that the config asks for, instead of the checkpoint's."""

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        made = pl_module.configure_optimizers()
        fresh = made if isinstance(made, list) else [made]
        for optimizer, wanted in zip(trainer.optimizers, fresh, strict=True):
            for group, new in zip(optimizer.param_groups, wanted.param_groups, strict=True):
                group["lr"] = group["initial_lr"] = new["lr"]
