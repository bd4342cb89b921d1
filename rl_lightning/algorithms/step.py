"""One optimizer step: the only place that computes gradients, so that all rules about them hold everywhere."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning import ranks
from rl_lightning.errors import DivergedError
from rl_lightning.functional.schedules import Schedule


def parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def step(optimizer: Optimizer, loss: Tensor, clip: float | None = None) -> Tensor | None:
    """Moves exactly the optimizer's own parameters down the gradient of `loss`; returns the gradient's norm if clipped.

    Only their gradients are computed: an actor's loss costs nothing in the critic it looks through. A loss that is
    not finite raises before anything moves.
    """
    if not math.isfinite(loss.item()):
        raise DivergedError(f"the loss became {loss.item()}; nothing was learned from it")
    params = parameters(optimizer)
    grads = torch.autograd.grad(loss, params, allow_unused=True)
    ranks.average_([g for g in grads if g is not None])
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad
    norm = None if clip is None else clip_([g for g in grads if g is not None], clip)
    optimizer.step()
    if torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled():
        torch.clear_autocast_cache()  # else the next update of this block would see the weights from before the step
    return norm


def clip_(grads: list[Tensor], limit: float) -> Tensor:
    """Scales gradients down to `limit` together; returns their norm from before. Half the cost of torch's own."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp_(max=1.0))
    return norm


def set_lr(optimizer: Optimizer, schedule: Schedule, progress: float) -> None:
    """The scheduled share of the rate that each group began with; that rate is saved with the optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = schedule.value(group.setdefault("initial_lr", group["lr"]), progress)
