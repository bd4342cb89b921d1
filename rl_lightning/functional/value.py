"""Targets and losses of value functions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from rl_lightning.functional.action_distributions import mask_logits


def td_target(reward: Tensor, next_value: Tensor, terminated: Tensor, discount: Tensor | float) -> Tensor:
    """r + discount * V(next), without the second term where the episode terminated (not where it was cut)."""
    assert reward.shape == next_value.shape == terminated.shape, (reward.shape, next_value.shape)
    return reward + discount * (1.0 - terminated.to(reward.dtype)) * next_value


def max_q_value(q_next: Tensor, mask: Tensor | None = None) -> Tensor:
    """Value of the best legal action.  [..., A] -> [...]"""
    return mask_logits(q_next, mask).amax(-1)


def double_q_value(q_online_next: Tensor, q_target_next: Tensor, mask: Tensor | None = None) -> Tensor:
    """The target network's value of the online network's best legal action.  [..., A], [..., A] -> [...]"""
    assert q_online_next.shape == q_target_next.shape, (q_online_next.shape, q_target_next.shape)
    best = mask_logits(q_online_next, mask).argmax(-1, keepdim=True)
    return q_target_next.gather(-1, best).squeeze(-1)


def huber(error: Tensor, delta: float = 1.0) -> Tensor:
    """Half the square up to delta, linear beyond; per element, so that rows can be weighted."""
    return huber_loss(error, torch.zeros_like(error), reduction="none", delta=delta)


def quantile_huber_loss(quantiles: Tensor, target: Tensor, kappa: float) -> Tensor:
    """Quantile regression of each row's N quantiles onto its M target values: the sum over the quantiles of the mean
    over targets.  [B, N], [B, M] -> [B]"""
    assert quantiles.ndim == target.ndim == 2 and len(quantiles) == len(target), (
        quantiles.shape,
        target.shape,
    )
    count = quantiles.shape[1]
    level = (torch.arange(count, device=quantiles.device, dtype=quantiles.dtype) + 0.5) / count
    error = target[:, None, :] - quantiles[:, :, None]  # [B, N, M]
    weight = (level[:, None] - (error.detach() < 0).to(error.dtype)).abs()
    return (weight * huber(error, kappa)).mean(2).sum(1)


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip: float | None) -> Tensor:
    """Half the mean squared error, or half the mean of the larger of it and that of the clipped value."""
    assert value.shape == old_value.shape == target.shape, (value.shape, old_value.shape, target.shape)
    error = (value - target).square()
    if clip is not None:
        near = old_value + (value - old_value).clamp(-clip, clip)
        error = torch.maximum(error, (near - target).square())
    return 0.5 * error.mean()


def explained_variance(value: Tensor, target: Tensor) -> Tensor:
    """Fraction of the targets' variance that the values explain: 1 is perfect, 0 no better than a constant."""
    variance = target.var(correction=0)
    share = 1.0 - (target - value).var(correction=0) / variance
    return torch.where(variance > 0, share, torch.full_like(share, float("nan")))


@torch.no_grad()
def polyak_update(target_params: Sequence[Tensor], params: Sequence[Tensor], tau: float) -> None:
    """target += tau * (online - target), in place; tau 1 is a copy."""
    torch._foreach_lerp_(list(target_params), list(params), tau)


def expectile_loss(error: Tensor, level: float) -> Tensor:
    """Mean square of `target - value`, weighted `level` where it is positive and `1 - level` elsewhere."""
    return (torch.where(error > 0, level, 1.0 - level) * error.square()).mean()


def exp_advantage_weight(advantage: Tensor, beta: float, max_weight: float) -> Tensor:
    """exp(temperature * advantage), at most `max_weight`; finite whatever the advantage is."""
    return (beta * advantage).exp().clamp(max=max_weight)


def soft_clipped_double_q(q: Tensor, lmbda: float) -> Tensor:
    """Between the lowest and the highest critic, `lmbda` of the way to the lowest.  [E, ...] -> [...]"""
    return lmbda * q.amin(0) + (1.0 - lmbda) * q.amax(0)


def inverse_scale(q: Tensor) -> Tensor:
    """1 / mean |q|, without a gradient: makes a loss in units of value independent of the reward's size."""
    return 1.0 / q.detach().abs().mean().clamp_min(1e-8)


def cross_normalized_q_loss(q: Tensor, first: int) -> Tensor:
    """Less the mean value by one of two critics, over the mean size of the other's, which has no gradient.  [2, B]"""
    assert len(q) == 2, q.shape
    return -q[first].mean() * inverse_scale(q[1 - first])


def smoothed_action(action: Tensor, noise: Tensor, noise_clip: float) -> Tensor:
    """TD3's: a target policy's action, shaken by noise of at most `noise_clip` and kept within its bounds."""
    return (action + noise.clamp(-noise_clip, noise_clip)).clamp(-1.0, 1.0)
