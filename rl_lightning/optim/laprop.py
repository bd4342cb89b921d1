"""LaProp (Ziyin et al. 2020) with adaptive clipping and warm-up, as the current Dreamer v3 optimises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError


class LaProp(torch.optim.Optimizer):
    """Gradients are divided by their running size first, and averaged then. All tensors of a group move in a few calls.

    Args:
        betas: Decay of the running mean and of the running square.
        eps: Added to the denominator.
        agc: Each tensor's gradient is scaled down to this fraction of the tensor's own norm; null never.
        agc_eps: Norm that even a tensor of zeros counts with when clipping.
        warmup_steps: Steps over which the learning rate rises from zero.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-20,
        agc: float | None = 0.3,
        agc_eps: float = 1e-3,
        warmup_steps: int = 1000,
    ) -> None:
        if not all(0.0 <= beta < 1.0 for beta in betas) or warmup_steps < 0 or (agc is not None and agc <= 0):
            raise ConfigError(
                f"LaProp: betas in [0, 1), agc above 0, warmup_steps not negative; not {betas}, {agc}, {warmup_steps}"
            )
        super().__init__(params, {"lr": lr})
        self.betas, self.eps, self.agc = betas, eps, agc
        self.agc_eps, self.warmup_steps = agc_eps, warmup_steps

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            states = [self._state(p) for p in params]
            for state in states:
                state["step"] += 1
            self._move(group["lr"], params, states)

    def _state(self, param: Tensor) -> dict[str, Tensor]:
        state = self.state[param]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["mean"], state["square"] = torch.zeros_like(param), torch.zeros_like(param)
        return state

    def _move(self, lr: float, params: list[Tensor], states: list[dict[str, Tensor]]) -> None:
        count = float(states[0]["step"])
        (first, second), grads = self.betas, self._clipped(params)
        squares, means = [s["square"] for s in states], [s["mean"] for s in states]
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, grads, grads, 1.0 - second)
        size = torch._foreach_div(squares, 1.0 - second**count)
        torch._foreach_sqrt_(size)
        torch._foreach_add_(size, self.eps)
        torch._foreach_lerp_(means, torch._foreach_div(grads, size), 1.0 - first)
        rate = lr * min(1.0, count / max(1, self.warmup_steps)) / (1.0 - first**count)
        torch._foreach_add_(params, means, alpha=-rate)

    def _clipped(self, params: list[Tensor]) -> list[Tensor]:
        grads = [p.grad for p in params if p.grad is not None]
        if self.agc is None:
            return grads
        limits = torch._foreach_clamp_min(torch._foreach_norm(params), self.agc_eps)
        norms = torch._foreach_clamp_min(torch._foreach_norm(grads), 1e-30)
        shares = [(self.agc * limit / norm).clamp(max=1.0) for limit, norm in zip(limits, norms, strict=True)]
        return [grad * share for grad, share in zip(grads, shares, strict=True)]
