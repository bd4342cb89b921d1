"""One optimizer step: the only place that computes gradients, so that all rules about them hold everywhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.errors import DivergedError
from rl_lightning.kernels.choice import asking
from rl_lightning.optim.schedules import Constant, Schedule

Grads = Sequence[Tensor | None]


class Hooks(Protocol):
    """Lightning's hooks around a backward pass, where somebody overrides one of them."""

    def on_before_zero_grad(self, optimizer: Optimizer) -> None: ...
    def on_before_backward(self, loss: Tensor) -> None: ...
    def on_after_backward(self) -> None: ...
    def on_before_optimizer_step(self, optimizer: Optimizer) -> None: ...


class Stepper:
    """Moves an optimizer's own parameters down the gradient of a loss.

    Only their gradients are computed: an actor's loss costs nothing in the critic it looks through. A loss that is not
    finite raises before anything moves.
    """

    hooks: Hooks | None = None
    schedulers = False  # there are some that count updates

    def __call__(self, optimizer: Optimizer, loss: Tensor, clip: float | None = None) -> Tensor | None:
        """Returns the gradient's norm if it is clipped."""
        alone = distributed.world_size() == 1
        if alone:
            check_finite(loss)
        params = parameters(optimizer)
        if self.hooks is not None:
            self.hooks.on_before_zero_grad(optimizer)
            self.hooks.on_before_backward(loss)
        grads = gradients(loss, params)
        if not alone:
            # the loss goes with the gradients: one rank must not leave while the others wait for its message
            mean = loss.detach().clone()
            distributed.average_([*(g for g in grads if g is not None), mean])
            check_finite(mean)
        return self.move(optimizer, params, grads, clip)

    def move(
        self, optimizer: Optimizer, params: list[Tensor], grads: Grads, clip: float | None
    ) -> Tensor | None:
        assign(params, grads)
        if self.hooks is not None:
            self.hooks.on_after_backward()
        norm = None if clip is None else clip_([p.grad for p in params if p.grad is not None], clip)
        if self.hooks is not None:
            self.hooks.on_before_optimizer_step(optimizer)
        optimizer.step()
        if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
            torch.clear_autocast_cache()  # else the next update of this block would see the weights of before
        return norm


def parameters(optimizer: Optimizer) -> list[Tensor]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def gradients(loss: Tensor, params: list[Tensor]) -> list[Tensor | None]:
    """Of the parameters that are not frozen, None for the others."""
    free = [p for p in params if p.requires_grad]
    if not free:
        return [None] * len(params)
    with asking(free):
        computed = iter(torch.autograd.grad(loss, free, allow_unused=True))
    return [next(computed) if p.requires_grad else None for p in params]


def check_finite(loss: Tensor) -> None:
    if not math.isfinite(value := loss.item()):
        raise DivergedError(f"the loss became {value}; nothing was learned from it")


def assign(params: Sequence[Tensor], grads: Grads) -> None:
    """Gives each parameter its gradient, in the parameter's own order in memory; a frozen one gets none.

    Fused optimizers walk both side by side, and a convolution may hand back a gradient laid out otherwise.
    """
    for param, grad in zip(params, grads, strict=True):
        if grad is not None and grad.stride() != param.stride():
            grad = torch.empty_like(param).copy_(grad)
        param.grad = grad if param.requires_grad else None


def clip_(grads: list[Tensor], limit: float) -> Tensor:
    """Scales gradients down to `limit` together; returns their norm from before. Half the cost of torch's own."""
    if not grads:
        return torch.zeros(())
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads)))
    torch._foreach_mul_(grads, (limit / (norm + 1e-6)).clamp_(max=1.0))
    return norm


def set_lr(optimizer: Optimizer, schedule: Schedule, progress: float) -> None:
    """The scheduled fraction of the learning rate that each group began with; that one is saved with the optimizer."""
    if isinstance(schedule, Constant):
        return  # a scheduler of the user's own may be at work
    for group in optimizer.param_groups:
        group["lr"] = schedule.value(group.setdefault("initial_lr", group["lr"]), progress)


@contextmanager
def freeze_weights(*modules: nn.Module) -> Iterator[None]:
    """Inside, what is computed leads no gradient into these modules' weights, but through them."""
    moving = [p for module in modules for p in module.parameters() if p.requires_grad]
    for p in moving:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in moving:
            p.requires_grad_(True)


class GradientGuard(Stepper):
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
        self.skip, self.accumulate_grad_batches, self.max_skips, self.names = (
            skip,
            accumulate,
            max_skips,
            names or {},
        )
        self.skipped = self.in_a_row = 0
        self.pending: dict[int, tuple[int, list[Tensor | None]]] = {}  # id of an optimizer -> count and sums

    def __call__(self, optimizer: Optimizer, loss: Tensor, clip: float | None = None) -> Tensor | None:
        params = parameters(optimizer)
        if distributed.world_size() == 1 and not math.isfinite(
            loss.item()
        ):  # several must not part ways here
            self._refuse(loss.item(), params, [])
            return None if clip is None else torch.zeros_like(loss.detach())
        if self.hooks is not None:
            self.hooks.on_before_zero_grad(optimizer)
            self.hooks.on_before_backward(loss)
        try:
            grads = gradients(loss, params)
        except RuntimeError as error:  # how anomaly detection tells
            if "returned nan values" not in str(error):
                raise
            raise DivergedError(f"in the backward pass: {error}") from error
        value = loss.detach().clone().float()
        there = [g for g in grads if g is not None]
        distributed.average_([*there, value])  # all ranks see and decide the same
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(there))) if there else torch.zeros(())
        if not (math.isfinite(value.item()) and math.isfinite(norm.item())):
            self._refuse(value.item(), params, grads)
            return None if clip is None else torch.zeros_like(norm)
        self.in_a_row = 0
        gathered = self._gathered(optimizer, grads)
        if gathered is None:
            return None if clip is None else norm
        return self.move(optimizer, params, gathered, clip)

    def _gathered(self, optimizer: Optimizer, grads: Grads) -> list[Tensor | None] | None:
        """The mean over the last `accumulate` gradients, once there are so many."""
        if self.accumulate_grad_batches == 1:
            return list(grads)
        count, sums = self.pending.pop(id(optimizer), (0, [None] * len(grads)))
        sums = [
            old if new is None else new if old is None else old + new
            for old, new in zip(sums, grads, strict=True)
        ]
        if count + 1 < self.accumulate_grad_batches:
            self.pending[id(optimizer)] = (count + 1, sums)
            return None
        return [None if total is None else total / self.accumulate_grad_batches for total in sums]

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
