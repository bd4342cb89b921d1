"""Action distributions as plain arithmetic, and policy losses. Random numbers are the caller's.

torch.distributions is not used: its checks and objects cost more than the arithmetic of a small batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
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


def bounded_log_std(raw: Tensor, bounds: tuple[float, float]) -> Tensor:
    """Any number to a log-std between the bounds, approached softly so that the gradient never dies."""
    low, high = bounds
    return low + 0.5 * (high - low) * (raw.tanh() + 1.0)


def squashed_sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """(action in (-1, 1), its log-probability), both differentiable in mean and log_std."""
    raw = gaussian_sample(mean, log_std, noise)
    log_prob = -(0.5 * noise.square() + log_std + 0.5 * LOG_2PI + _tanh_log_slope(raw)).sum(-1)
    return raw.tanh(), log_prob


def squashed_log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    """Log-density of a given action, e.g. from a data set; the edges are pulled in by two rounding units."""
    limit = 1.0 - 2.0 * torch.finfo(action.dtype).eps
    raw = action.clamp(-limit, limit).atanh()
    return gaussian_log_prob(mean, log_std, raw) - _tanh_log_slope(raw).sum(-1)


def ppo_loss(
    log_prob: Tensor, old_log_prob: Tensor, advantage: Tensor, clip: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(clipped surrogate loss, approximate KL to the old policy, fraction of clipped ratios); all scalars."""
    assert log_prob.shape == old_log_prob.shape == advantage.shape, (log_prob.shape, advantage.shape)
    log_ratio = log_prob - old_log_prob
    ratio = log_ratio.exp()
    loss = -torch.minimum(advantage * ratio, advantage * ratio.clamp(1.0 - clip, 1.0 + clip)).mean()
    with torch.no_grad():
        moved = ratio - 1.0
        return loss, (moved - log_ratio).mean(), (moved.abs() > clip).float().mean()
