"""Statistics of scores, in numpy alone: commands that only read results must not wait for torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rl_lightning.io.score_counts import LAST

Array = NDArray[np.float64]
Statistic = Callable[[Array], float]


def _flat(values: ArrayLike) -> Array:
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
    return float(_iqm_rows(_flat(values)))


def _iqm_rows(rows: Array) -> Array:
    ordered = np.sort(rows, axis=-1)
    cut = ordered.shape[-1] // 4
    middle: Array = ordered[..., cut : ordered.shape[-1] - cut]
    return np.asarray(middle.mean(axis=-1))


def last_mean(values: Sequence[float] | ArrayLike, count: int = LAST) -> float:
    """Mean of the last `count` values, or of all where there are fewer."""
    return float(_flat(values)[-count:].mean())


def optimality_gap(values: ArrayLike, optimal: float, lower: bool = False) -> float:
    """How far the values fall short of `optimal` on average; what is better than optimal counts as optimal.

    Args:
        values: Scores.
        optimal: The score that nothing is gained beyond.
        lower: Lower is better.
    """
    missing = _flat(values) - optimal if lower else optimal - _flat(values)
    return float(np.maximum(missing, 0.0).mean())


# The common statistics along the last axis at once: two thousand resamples in one call.
_ROWS: dict[Statistic, Callable[[Array], Array]] = {
    mean: lambda rows: np.asarray(rows.mean(axis=-1)),
    median: lambda rows: np.asarray(np.median(rows, axis=-1)),
    iqm: _iqm_rows,
}


def _estimates(rows: Array, statistic: Statistic) -> Array:
    if statistic in _ROWS:
        return _ROWS[statistic](rows)
    return np.fromiter((statistic(row) for row in rows), np.float64, len(rows))


def _quantiles(estimates: Array, level: float) -> tuple[float, float]:
    low, high = np.quantile(estimates, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")


def bootstrap_interval(
    values: ArrayLike,
    statistic: Statistic = iqm,
    seed: int | np.random.Generator = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """Percentile bootstrap interval of a statistic: (low, high)."""
    return stratified_interval([values], statistic, seed, level, resamples)


def stratified_interval(
    strata: Sequence[ArrayLike],
    statistic: Statistic = iqm,
    seed: int | np.random.Generator = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float]:
    """The same over several tasks: each one's scores are drawn among themselves, the statistic is that of all.

    Args:
        strata: The scores of each task.
        statistic: Of all scores together.
        seed: Seed or generator.
        level: Of the interval.
        resamples: How often to draw.
    """
    _check_level(level)
    generator = np.random.default_rng(seed)
    arrays = [_flat(values) for values in strata]
    if not arrays:
        raise ValueError("no scores: a statistic needs at least one value")
    resampled = [array[generator.integers(array.size, size=(resamples, array.size))] for array in arrays]
    return _quantiles(_estimates(np.concatenate(resampled, axis=1), statistic), level)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike) -> float:
    """Chance that a score of ours is higher than one of theirs; a tie counts half."""
    return float(_improvement(_flat(ours), _flat(theirs)))


def _improvement(ours: Array, theirs: Array) -> Array:
    a, b = ours[..., :, None], theirs[..., None, :]
    return np.asarray(((a > b) + 0.5 * (a == b)).mean(axis=(-2, -1)))


def improvement_interval(
    ours: Sequence[ArrayLike],
    theirs: Sequence[ArrayLike],
    seed: int | np.random.Generator = 0,
    level: float = 0.95,
    resamples: int = 2000,
) -> tuple[float, float, float]:
    """Probability of improvement, averaged over tasks, and its bootstrap interval: (estimate, low, high).

    Args:
        ours: Scores of each task.
        theirs: Scores of the same tasks, in the same order.
        seed: Seed or generator.
        level: Of the interval.
        resamples: How often to draw.
    """
    _check_level(level)
    if not ours or len(ours) != len(theirs):
        raise ValueError(f"the tasks differ: {len(ours)} of ours, {len(theirs)} of theirs")
    generator = np.random.default_rng(seed)
    exact, estimates = [], []
    for a, b in zip(map(_flat, ours), map(_flat, theirs), strict=True):
        exact.append(float(_improvement(a, b)))
        rows = (x[generator.integers(x.size, size=(resamples, x.size))] for x in (a, b))
        estimates.append(_improvement(*rows))
    return float(np.mean(exact)), *_quantiles(np.mean(estimates, axis=0), level)


def curve_interval(
    curves: ArrayLike,
    seed: int | np.random.Generator = 0,
    level: float = 0.95,
    resamples: int = 500,
) -> tuple[Array, Array]:
    """Bootstrap interval of the mean at each point of several curves [S, X]: (low [X], high [X])."""
    _check_level(level)
    rows = np.atleast_2d(np.asarray(curves, dtype=np.float64))
    chosen = np.random.default_rng(seed).integers(len(rows), size=(resamples, len(rows)))
    counts = np.zeros((resamples, len(rows)))
    np.add.at(counts, (np.arange(resamples)[:, None], chosen), 1.0 / len(rows))
    low, high = np.quantile(counts @ rows, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    return low, high


def area_under_curve(
    x: ArrayLike, y: ArrayLike, low: float | None = None, high: float | None = None
) -> float:
    """Mean height of a curve between two places: its area by trapezoids, divided by their distance.

    Beyond its ends a curve is taken to be level.

    Args:
        x: Places, ascending.
        y: Heights.
        low: Where to begin; null: at the curve's first place.
        high: Where to end; null: at its last.
    """
    places, heights = _flat(x), _flat(y)
    if places.shape != heights.shape:
        raise ValueError(f"{places.size} places but {heights.size} heights")
    low, high = float(places[0] if low is None else low), float(places[-1] if high is None else high)
    if high <= low:
        return float(np.interp(high, places, heights))
    inside = places[(places > low) & (places < high)]
    grid = np.concatenate([[low], inside, [high]])
    return float(np.trapezoid(np.interp(grid, places, heights), grid) / (high - low))


def steps_to_threshold(x: ArrayLike, y: ArrayLike, threshold: float, lower: bool = False) -> float | None:
    """The first place at which a curve is at the threshold or better; None if it never is."""
    places, heights = _flat(x), _flat(y)
    reached = np.flatnonzero(heights <= threshold if lower else heights >= threshold)
    return float(places[reached[0]]) if reached.size else None


def normalized(score: ArrayLike, low: float, high: float) -> Array:
    """Score in percent of the way from a random (low) to a reference policy (high)."""
    if low == high:
        raise ValueError(f"the two reference scores are both {low}")
    return 100.0 * (np.asarray(score, dtype=np.float64) - low) / (high - low)
