"""A sample of a Gaussian squashed by tanh and its log-probability, as one node of autograd's graph.

From what an actor's last layer gives to the sample take twenty small steps, each dearer than its arithmetic. 256 x 3
actions on one core, there and back: 0.12 ms in torch and 0.10 ms here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from rl_lightning.functional.action_distributions import LOG_2, LOG_2PI, bounded_log_std, squashed_sample
from rl_lightning.kernels.choice import is_plain

Bounds = tuple[float, float]


class _SquashedGaussian(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, noise: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
        mean, raw = out.chunk(2, -1)
        log_std = bounded_log_std(raw, bounds)
        spread = log_std.exp().mul_(noise)
        u = mean + spread
        density = F.softplus(u * -2.0).add_(u).mul_(2.0).sub_(log_std).addcmul_(noise, noise, value=-0.5)
        log_prob = density.sum(-1).sub_((2.0 * LOG_2 + 0.5 * LOG_2PI) * mean.shape[-1])
        action = u.tanh_()
        ctx.save_for_backward(action, spread, log_std)
        ctx.bounds = bounds
        return action, log_prob

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_action: Tensor, by_log_prob: Tensor) -> tuple[Tensor, None, None]:
        action, spread, log_std = ctx.saved_tensors
        low, high = ctx.bounds
        density = by_log_prob.unsqueeze(-1)
        by_mean = torch.addcmul(by_action * (1.0 - action.square()), density, action, value=2.0)
        slope = (log_std - low).mul_(high - log_std).mul_(2.0 / (high - low))
        by_raw = (by_mean * spread).sub_(density).mul_(slope)
        return torch.cat((by_mean, by_raw), -1), None, None


def squashed_gaussian_twin(out: Tensor, noise: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    mean, raw = out.chunk(2, -1)
    return squashed_sample(mean, bounded_log_std(raw, bounds), noise)


def squashed_gaussian(out: Tensor, noise: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """(action in (-1, 1) [..., A], its log-probability [...]) of mean and unbounded log-std [..., 2A]."""
    if not is_plain(out):
        return squashed_gaussian_twin(out, noise, bounds)
    return _SquashedGaussian.apply(out, noise, bounds)  # type: ignore[no-untyped-call]
