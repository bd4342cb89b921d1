"""Lightning's hooks around a backward pass, for callbacks and modules that override one of them."""

from __future__ import annotations

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

NAMES = ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step")


def _own(item: Any, name: str, base: type) -> bool:
    return name in vars(item) or getattr(type(item), name) is not getattr(base, name)


class BackwardHooks:
    """Calls the overridden ones in Lightning's order: callbacks, then the module.

    Args:
        trainer: Its callbacks are asked.
        module: And the module that learns.
    """

    def __init__(self, trainer: Trainer, module: LightningModule) -> None:
        self.trainer, self.module = trainer, module
        listed = trainer.callbacks  # type: ignore[attr-defined]
        self.called = {
            name: [item for item in listed if _own(item, name, Callback)]
            + ([module] if _own(module, name, LightningModule) else [])
            for name in NAMES
        }

    @property
    def any(self) -> bool:
        return any(self.called.values())

    def _call(self, name: str, *args: Any) -> None:
        for item in self.called[name]:
            own = args if item is self.module else (self.trainer, self.module, *args)
            getattr(item, name)(*own)

    def on_before_zero_grad(self, optimizer: Optimizer) -> None:
        self._call("on_before_zero_grad", optimizer)

    def on_before_backward(self, loss: Tensor) -> None:
        self._call("on_before_backward", loss)

    def on_after_backward(self) -> None:
        self._call("on_after_backward")

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        self._call("on_before_optimizer_step", optimizer)
