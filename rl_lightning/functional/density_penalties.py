"""From a log-density to a penalty, and how good a score is as a detector.

A penalty is a function of the shortfall u: how far a score lies below the threshold, in standard deviations of held-out
scores or in nats. Every one is finite, at least 0, at most its cap, and never falls as the score falls.
"""

from __future__ import annotations

import torch
from torch import Tensor

POINTS = 1001  # of a stored quantile function: a tenth of a percent apart
MOST = 1e12  # stands for a score that is not a number: as far outside as can be


def deficit_below_threshold(score: Tensor, threshold: Tensor | float, unit: Tensor | float = 1.0) -> Tensor:
    """How far a score lies below the threshold, in units; a score that is not a number lies below every threshold."""
    return ((threshold - score) / unit).nan_to_num(nan=MOST, posinf=MOST, neginf=-MOST)


def linear_penalty(u: Tensor, cap: float = 5.0) -> Tensor:
    return u.clamp(0.0, cap)


def inverse_penalty(u: Tensor, cap: float = 5.0) -> Tensor:
    """The likelihood at the threshold over the row's own, less 1; the ratio, not the penalty, is cut at `cap`."""
    return u.clamp(0.0, 8.0).exp().clamp(max=max(cap, 1.0)) - 1.0


def exponential_penalty(u: Tensor, cap: float = 5.0) -> Tensor:
    return u.clamp(0.0, 30.0).expm1().clamp(max=cap)


def tanh_penalty(u: Tensor, cap: float = 1.0) -> Tensor:
    return u.clamp(min=0.0).tanh().clamp(max=cap)


def softplus_penalty(u: Tensor, cap: float = 5.0) -> Tensor:
    """Smooth, and so the only one that is above 0 for rows inside: ln 2 at the threshold."""
    return torch.nn.functional.softplus(u.clamp(max=1e6)).clamp(max=cap)


def quantile_grid(scores: Tensor, points: int = POINTS) -> Tensor:
    """Quantiles of scores [N] at equal steps from the least to the greatest."""
    assert scores.ndim == 1 and len(scores), scores.shape
    return _interpolate(scores.double().sort().values, torch.linspace(0.0, 1.0, points, dtype=torch.float64))


def percentile_of(grid: Tensor, percentile: float) -> Tensor:
    """The score below which this percentage of rows lies, between the points of a grid of quantiles."""
    return _interpolate(grid, torch.tensor(percentile / 100.0, dtype=torch.float64))


def _interpolate(ordered: Tensor, share: Tensor) -> Tensor:
    place = share.to(ordered.device) * (len(ordered) - 1)
    low = place.floor().long().clamp(0, len(ordered) - 1)
    high = (low + 1).clamp(max=len(ordered) - 1)
    return ordered[low].lerp(ordered[high], (place - low).to(ordered.dtype))


def auroc(inside: Tensor, outside: Tensor) -> float:
    """Chance that a row from inside scores higher than one from outside; a tie counts half."""
    ordered, ours = outside.double().sort().values, inside.double()
    below = torch.searchsorted(ordered, ours, right=False).double()
    upto = torch.searchsorted(ordered, ours, right=True).double()
    return float((below + upto).mean() / (2.0 * len(ordered)))
