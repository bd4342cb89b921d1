"""Diffusion-DICE's arithmetic (Mao et al. 2024): a divergence with positive ratios, its dual, the guide's loss."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST_LOG = -30.0  # of a ratio: a smaller one is a denormal number, and is nothing anyway
MOST_EXPONENT = 10.0  # of the guide's loss: beyond it the loss goes on as a straight line


def divergence(ratio: Tensor) -> Tensor:
    """f(x) = (x - 1)^2 from 1 on, x log x - x + 1 below."""
    small = ratio.clamp(min=0.0, max=1.0)
    return torch.where(ratio >= 1.0, (ratio - 1.0).square(), torch.special.xlogy(small, small) - small + 1.0)


def conjugate(y: Tensor) -> Tensor:
    """f*(y) = y^2/4 + y from 0 on, exp(y) - 1 below; the branch not chosen stays finite, and so does its slope."""
    up = y.clamp(min=0.0)
    return torch.where(y >= 0.0, 0.25 * up.square() + up, torch.expm1(y.clamp(max=0.0)))


def ratio_of(y: Tensor) -> Tensor:
    """The inverse of f': y/2 + 1 from 0 on, exp(y) below. Always above 0."""
    return torch.where(y >= 0.0, 0.5 * y + 1.0, y.clamp(min=LEAST_LOG, max=0.0).exp())


def value_loss(advantage: Tensor, value: Tensor, alpha: float, value_weight: float = 1.0) -> Tensor:
    """Dual of the value: mean of f*((Q - V) / alpha) + weight * V / alpha. At weight 1 its optimum has E[ratio] = 1."""
    assert advantage.shape == value.shape, (advantage.shape, value.shape)
    return (conjugate(advantage / alpha) + value_weight * value / alpha).mean()


def guide_loss(guide: Tensor, ratio: Tensor) -> Tensor:
    """Mean of w exp(-g) + g, whose optimum is g = log E[w | noisy action]; straight where exp(-g) w would explode."""
    assert guide.shape == ratio.shape, (guide.shape, ratio.shape)
    exponent = ratio.clamp_min(torch.finfo(ratio.dtype).tiny).log() - guide
    over = (exponent - MOST_EXPONENT).clamp(min=0.0)
    return (exponent.clamp(max=MOST_EXPONENT).exp() * (1.0 + over) + guide).mean()
