"""One optimizer step: the only place that computes gradients, so that all rules about them hold everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning import ranks
from rl_lightning.errors import DivergedError
from rl_lightning.functional.schedules import Schedule


def parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def step(
    optimizer: Optimizer,
    loss: Tensor,
    clip: float | None = None,
    grads: Sequence[Tensor | None] | None = None,
) -> Tensor | None:
    """Moves exactly the optimizer's own parameters down the gradient of `loss`; returns the gradient's norm if clipped.

    Only their gradients are computed: an actor's loss costs nothing in the critic it looks through. A rule that has
    written its gradients out hands them in as `grads`. A loss that is not finite raises before anything moves.
    """
    if _guard is not None:
        return _guard.step(optimizer, loss, clip, grads)
    alone = ranks.world_size() == 1
    if alone:
        _check_finite(loss)
    params = parameters(optimizer)
    if grads is None:
        grads = torch.autograd.grad(loss, params, allow_unused=True)
    if (
        not alone
    ):  # the loss goes with the gradients: one rank must not leave while the others wait for its message
        mean = loss.detach().clone()
        ranks.average_([*(g for g in grads if g is not None), mean])
        _check_finite(mean)
    assign(params, grads)
    norm = None if clip is None else clip_([p.grad for p in params if p.grad is not None], clip)
    optimizer.step()
    if torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled():
        torch.clear_autocast_cache()  # else the next update of this block would see the weights from before the step
    return norm


def _check_finite(loss: Tensor) -> None:
    if not math.isfinite(value := loss.item()):
        raise DivergedError(f"the loss became {value}; nothing was learned from it")


def assign(params: Sequence[Tensor], grads: Sequence[Tensor | None]) -> None:
    """Gives each parameter its gradient, in the parameter's own order in memory.

    Fused optimizers walk both side by side, and a convolution may hand back a gradient laid out otherwise.
    """
    for param, grad in zip(params, grads, strict=True):
        if grad is not None and grad.stride() != param.stride():
            grad = torch.empty_like(param).copy_(grad)
        param.grad = grad


def clip_(grads: list[Tensor], limit: float) -> Tensor:
    """Scales gradients down to `limit` together; returns their norm from before. Half the cost of torch's own."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp_(max=1.0))
    return norm


def set_lr(optimizer: Optimizer, schedule: Schedule, progress: float) -> None:
    """The scheduled share of the rate that each group began with; that rate is saved with the optimizer."""
    for group in optimizer.param_groups:
        group["lr"] = schedule.value(group.setdefault("initial_lr", group["lr"]), progress)


class GradientGuard:
    """Steps that look at every gradient first, and may gather several before one move.

    Args:
        skip: Leave a step out whose loss or gradient is not finite, instead of ending the run.
        accumulate: Gradients averaged before each move.
        max_skips: Steps left out in a row before the run ends after all.
        names: Parameters' names, for messages, by their id.
    """

    def __init__(
        self, skip: bool = False, accumulate: int = 1, max_skips: int = 100, names: dict[int, str] | None = None
    ) -> None:  # fmt: skip
        self.skip, self.accumulate, self.max_skips, self.names = skip, accumulate, max_skips, names or {}
        self.skipped = self.in_a_row = 0
        self.pending: dict[int, tuple[int, list[Tensor | None]]] = {}  # id of an optimizer -> count and sums

    def step(
        self,
        optimizer: Optimizer,
        loss: Tensor,
        clip: float | None,
        grads: Sequence[Tensor | None] | None = None,
    ) -> Tensor | None:
        params = parameters(optimizer)
        if ranks.world_size() == 1 and not math.isfinite(loss.item()):  # several must not part ways here
            self._refuse(loss.item(), params, [])
            return None if clip is None else torch.zeros_like(loss.detach())
        try:
            found = grads or torch.autograd.grad(loss, params, allow_unused=True)
        except RuntimeError as error:  # how anomaly detection tells
            if "returned nan values" not in str(error):
                raise
            raise DivergedError(f"in the backward pass: {error}") from error
        value = loss.detach().clone().float()
        ranks.average_([*(g for g in found if g is not None), value])  # all ranks see and decide the same
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm([g for g in found if g is not None])))
        if not (math.isfinite(value.item()) and math.isfinite(norm.item())):
            self._refuse(value.item(), params, found)
            return None if clip is None else torch.zeros_like(norm)
        self.in_a_row = 0
        grads = self._gathered(optimizer, found)
        if grads is None:
            return None if clip is None else norm
        assign(params, grads)
        norm = None if clip is None else clip_([p.grad for p in params if p.grad is not None], clip)
        optimizer.step()
        if torch.is_autocast_enabled() or torch.is_autocast_cpu_enabled():
            torch.clear_autocast_cache()
        return norm

    def _gathered(self, optimizer: Optimizer, found: Any) -> list[Tensor | None] | None:
        """The mean over the last `accumulate` gradients, once there are so many."""
        if self.accumulate == 1:
            return list(found)
        count, sums = self.pending.pop(id(optimizer), (0, [None] * len(found)))
        sums = [
            old if new is None else new.clone() if old is None else old + new  # a rule may write over its own
            for old, new in zip(sums, found, strict=True)
        ]
        if count + 1 < self.accumulate:
            self.pending[id(optimizer)] = (count + 1, sums)
            return None
        return [None if total is None else total / self.accumulate for total in sums]

    def _refuse(self, loss: float, params: list[Tensor], grads: Any) -> None:
        if not math.isfinite(loss):
            what = f"the loss became {loss}"
        else:
            bad = [
                p for p, g in zip(params, grads, strict=True) if g is not None and not torch.isfinite(g).all()
            ]
            names = [self.names.get(id(p), "a parameter") for p in bad] or ["all parameters together"]
            what = f"the gradient of {names[0]} is not finite"
        self.skipped += 1
        self.in_a_row += 1
        if not self.skip:
            raise DivergedError(f"{what}; nothing was learned from it")
        if self.in_a_row > self.max_skips:
            raise DivergedError(f"{what}, for {self.in_a_row} steps in a row; they were left out")

    def state(self, optimizers: list[Optimizer]) -> dict[str, Any]:
        """Plain values and tensors, in the order of the optimizers."""
        waiting = [self.pending.get(id(optimizer)) for optimizer in optimizers]
        return {
            "skipped": self.skipped, "in_a_row": self.in_a_row,
            "pending": [None if w is None else [w[0], list(w[1])] for w in waiting],
        }  # fmt: skip

    def load(self, state: dict[str, Any], optimizers: list[Optimizer]) -> None:
        self.skipped, self.in_a_row = int(state["skipped"]), int(state["in_a_row"])
        for optimizer, entry in zip(optimizers, state["pending"], strict=False):
            if entry is not None:
                like = parameters(optimizer)
                sums = [None if g is None else g.to(p.device) for g, p in zip(entry[1], like, strict=True)]
                self.pending[id(optimizer)] = (int(entry[0]), sums)


_guard: GradientGuard | None = None  # of the run in this process; None is the quick way


def guard_steps(guard: GradientGuard | None) -> None:
    """Sends every step of this process through a guard, or through none."""
    global _guard
    _guard = guard


def current_guard() -> GradientGuard | None:
    return _guard
