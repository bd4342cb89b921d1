"""Policies of one network that is played as the running average of its weights."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.functional.value import polyak_update
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import FractionBelowOne, NonNegativeFloat, PositiveFloat
from rl_lightning.types import EnvSpec


def ema_rate(updates: int, decay: float, power: float | None) -> float:
    """Fraction of the new weights that a running average takes; with a power it begins as a copy and slows down."""
    if power is not None:
        decay = min(decay, 1.0 - (1.0 + updates) ** -power)
    return 1.0 - decay


class EMAModule(PolicyModule):
    """Base of the algorithms that train `model` on one loss and play its `average`; `average_of` sets both."""

    deterministic_eval = False
    updates: Tensor
    model: Any  # what is trained, the subclass's own kind of network
    average: Any

    def __init__(
        self,
        spec: EnvSpec,
        lr: NonNegativeFloat,
        lr_schedule: Schedule | None,
        optimizer: OptimizerFactory,
        max_grad_norm: PositiveFloat | None,
        ema_decay: FractionBelowOne,
        ema_power: float | None,
    ) -> None:
        super().__init__(spec)
        self.lr, self.lr_schedule = lr, lr_schedule or Constant()
        self.optimizer, self.max_grad_norm = optimizer, max_grad_norm
        self.ema_decay, self.ema_power = ema_decay, ema_power
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def average_of(self, model: nn.Module) -> None:
        self.model = model
        self.average = copy.deepcopy(model).requires_grad_(False)

    def learn(self, loss: Tensor) -> Metrics:
        """One step of the optimizer and of the average."""
        (optimizer,) = self.raw_optimizers()
        set_lr(optimizer, self.lr_schedule, self.progress)
        norm = self.step(optimizer, loss, self.max_grad_norm)
        share = ema_rate(int(self.updates), self.ema_decay, self.ema_power)
        polyak_update(list(self.average.parameters()), list(self.model.parameters()), share)
        self.updates += 1
        return {"train/loss": loss} | ({} if norm is None else {"train/grad_norm": norm})

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.model.parameters(), self.lr)
