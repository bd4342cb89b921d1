"""Action distributions as plain arithmetic, and policy losses. Random numbers are the caller's.

torch.distributions is not used: its checks and objects cost more than the arithmetic of a small batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

LOG_2PI = math.log(2.0 * math.pi)
LOG_2 = math.log(2.0)


def standard_noise(shape: Sequence[int], generator: torch.Generator, like: Tensor) -> Tensor:
    """Standard normal noise, drawn where the generator lives, so that every device explores alike."""
    noise = torch.randn(tuple(shape), generator=generator, device=generator.device)
    return noise.to(device=like.device, dtype=like.dtype)


# Categorical: logits [..., A], action [...] of integers


def mask_logits(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Logits of illegal actions (mask False) become the lowest finite number: no chance, and no NaN."""
    if mask is None:
        return logits
    return torch.where(mask, logits, torch.finfo(logits.dtype).min)


def categorical_sample(logits: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
    """An action per row: of A clocks that ring at exponential times with the probabilities as rates, the first."""
    draw = torch.empty(logits.shape, device=generator.device).exponential_(generator=generator)
    if mask is not None:
        draw.clamp_min_(torch.finfo(draw.dtype).tiny)  # a time of 0 would let even an illegal action win
    return (mask_logits(logits, mask) - draw.log_().to(logits.device)).argmax(-1)


def categorical_evaluate(logits: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(log-probability of the action, entropy), sharing one softmax.  [..., A], [...] -> [...], [...]"""
    log_probs = F.log_softmax(mask_logits(logits, mask), -1)
    chosen = log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)
    return chosen, -(log_probs.exp() * log_probs).sum(-1)


def categorical_log_prob(logits: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
    log_probs = F.log_softmax(mask_logits(logits, mask), -1)
    return log_probs.gather(-1, action.long().unsqueeze(-1)).squeeze(-1)


def categorical_entropy(logits: Tensor, mask: Tensor | None = None) -> Tensor:
    log_probs = F.log_softmax(mask_logits(logits, mask), -1)
    return -(log_probs.exp() * log_probs).sum(-1)


def epsilon_greedy(
    q: Tensor, epsilon: float, generator: torch.Generator, mask: Tensor | None = None
) -> Tensor:
    """The best legal action, or with probability epsilon a uniformly drawn legal one.  [..., A] -> [...]

    Draws the same amount of random numbers whatever epsilon is.
    """
    greedy = mask_logits(q, mask).argmax(-1)
    explore = torch.rand(greedy.shape, generator=generator, device=generator.device) < epsilon
    if mask is None:
        random = torch.randint(q.shape[-1], greedy.shape, generator=generator, device=generator.device)
    else:
        random = categorical_sample(torch.zeros_like(q), generator, mask)
    return torch.where(explore.to(q.device), random.to(q.device), greedy)


# Diagonal Gaussian: mean and log_std [..., A]; log-probabilities are summed over A


def gaussian_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
    return torch.addcmul(mean, log_std.exp(), noise)


def gaussian_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    error = (action - mean) * torch.exp(-log_std)
    return -(0.5 * error.square() + log_std).sum(-1) - 0.5 * LOG_2PI * mean.shape[-1]


def gaussian_entropy(log_std: Tensor) -> Tensor:
    return log_std.sum(-1) + 0.5 * (1.0 + LOG_2PI) * log_std.shape[-1]


# Gaussian squashed by tanh into (-1, 1)


def _tanh_log_slope(raw: Tensor) -> Tensor:
    """log(1 - tanh(u)^2) without the cancellation that makes it -inf at |u| > 9."""
    return 2.0 * (LOG_2 - raw - F.softplus(-2.0 * raw))


def squash(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(action in (-1, 1), its log-probability, the noise as scaled); without gradients, which `squash_backward` has."""
    spread = log_std.exp() * noise
    raw = mean + spread
    # _tanh_log_slope's terms in as few steps as they take: each costs more than its arithmetic
    each = F.softplus(raw * -2.0).add_(raw).mul_(2.0).sub_(log_std).addcmul_(noise, noise, value=-0.5)
    log_prob = each.sum(-1).sub_((2.0 * LOG_2 + 0.5 * LOG_2PI) * mean.shape[-1])
    return raw.tanh_(), log_prob, spread


def squash_backward(
    action: Tensor, spread: Tensor, by_action: Tensor, by_log_prob: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients by mean and log_std from those by action [..., A] and log-probability [...]."""
    density = by_log_prob.unsqueeze(-1)
    by_raw = by_action * (1.0 - action.square()) + 2.0 * density * action
    return by_raw, by_raw * spread - density


class _SquashedSample(torch.autograd.Function):
    """Written out, because a dozen small steps each way cost more than the arithmetic."""

    @staticmethod
    def forward(ctx: Any, mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, log_prob, spread = squash(mean, log_std, noise)
        ctx.save_for_backward(action, spread)
        return action, log_prob

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_action: Tensor, by_log_prob: Tensor) -> tuple[Tensor, Tensor, None]:
        action, spread = ctx.saved_tensors
        return *squash_backward(action, spread, by_action, by_log_prob), None


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """(action in (-1, 1), its log-probability), both differentiable, once, in mean and log_std."""
    return _SquashedSample.apply(mean, log_std, noise)  # type: ignore[no-untyped-call]


def squashed_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Log-density of a given action, e.g. from a data set; the edges are pulled in by two rounding units."""
    limit = 1.0 - 2.0 * torch.finfo(action.dtype).eps
    raw = action.clamp(-limit, limit).atanh()
    return gaussian_log_prob(mean, log_std, raw) - _tanh_log_slope(raw).sum(-1)


def ppo_loss(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(clipped surrogate loss, approximate KL to the old policy, share of clipped ratios); all scalars."""
    assert log_prob.shape == old_log_prob.shape == advantage.shape, (log_prob.shape, advantage.shape)
    log_ratio = log_prob - old_log_prob
    ratio = log_ratio.exp()
    loss = -torch.minimum(advantage * ratio, advantage * ratio.clamp(1.0 - clip, 1.0 + clip)).mean()
    with torch.no_grad():
        moved = ratio - 1.0
        return loss, (moved - log_ratio).mean(), (moved.abs() > clip).float().mean()
