"""Statistics of scores, in numpy alone: commands that only read results must not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Statistic = Callable[[NDArray[np.float64]], float]


def _flat(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64).ravel()
    if array.size == 0:
        raise ValueError("no scores: a statistic needs at least one value")
    return array


def mean(values: ArrayLike) -> float:
    return float(_flat(values).mean())


def std(values: ArrayLike) -> float:
    """Standard deviation of the sample (n - 1); 0 for a single value."""
    array = _flat(values)
    return float(array.std(ddof=1)) if array.size > 1 else 0.0


def median(values: ArrayLike) -> float:
    return float(np.median(_flat(values)))


def iqm(values: ArrayLike) -> float:
    """Interquartile mean: a quarter of the values is dropped at either end, rounded down."""
    array = np.sort(_flat(values))
    cut = array.size // 4
    return float(array[cut : array.size - cut].mean())


def last_mean(values: Sequence[float] | ArrayLike, count: int = 10) -> float:
    """Mean of the last `count` values, or of all where there are fewer."""
    return float(_flat(values)[-count:].mean())


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic = iqm,
    seed: int | np.random.Generator = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic: (low, high)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    array = _flat(values)
    generator = np.random.default_rng(seed)
    drawn = array[generator.integers(array.size, size=(resamples, array.size))]
    estimates = np.fromiter((statistic(row) for row in drawn), np.float64, resamples)
    low, high = np.quantile(estimates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Chance that a score of ours is higher than one of theirs; a tie counts half."""
    a, b = _flat(ours)[:, None], _flat(theirs)[None, :]
    return float(((a > b) + 0.5 * (a == b)).mean())


def normalized(score: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Score in percent of the way from a random (low) to a reference policy (high)."""
    if low == high:
        raise ValueError(f"the two reference scores are both {low}")
    return 100.0 * (np.asarray(score, dtype=np.float64) - low) / (high - low)
