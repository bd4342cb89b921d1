"""Single numbers that are far from all others of their column: a flipped bit, which scaling would take for the data."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rl_lightning.datasets.formats.raw import Array, Raw, convert_line, first_bad
from rl_lightning.errors import DataError

WIDEST = (
    1000.0  # ranges of its column that a number may lie away from the middle, or 3 sqrt(N) in large files
)
WIDEST_REWARD = 1e6  # rewards are not scaled by their column, and a rare one may be large
TAIL = 0.01  # of a column at either side that its range leaves out
LEAST_RANGE = 0.1  # of a column, in units of its middle or of 1
RARE = 1e-3  # outliers are at most this fraction of the rows; more of them are what the data are like
CHUNK = 1 << 16


class Outlier(NamedTuple):
    """Rows of an array that have a number far away, and the first of them."""

    rows: Array
    column: int
    value: float
    low: float  # the range of the others
    high: float


def outliers(raw: Raw) -> dict[str, Outlier]:
    """For each array that has such rows: which they are, by a range in float64 that they themselves do not move."""
    bad, extremes = first_bad(raw), {}
    for key, array in raw.arrays.items():
        if array.dtype.kind != "f":
            continue
        flat = array.reshape(len(array), -1)
        whole = np.delete(np.arange(len(flat)), bad[key]) if key in bad else None
        outlier = _of(flat if whole is None else flat[whole], key == "rewards")
        if outlier is not None:
            extremes[key] = outlier if whole is None else outlier._replace(rows=whole[outlier.rows])
    return extremes


def _of(flat: Array, reward: bool) -> Outlier | None:
    """The first column's outlier, with the rows of all columns.  [N, D]"""
    count = len(flat)
    widest = WIDEST_REWARD if reward else max(WIDEST, 3.0 * math.sqrt(count))
    if not count or float(flat.max()) - float(flat.min()) <= widest * LEAST_RANGE:
        return None
    first, rows = None, np.zeros(count, bool)
    for column in np.flatnonzero(_peaked(flat)):
        values = flat[:, column].astype(np.float64)
        ordered, last = np.sort(values), count - 1
        low, high = float(ordered[math.ceil(TAIL * last)]), float(ordered[math.floor((1 - TAIL) * last)])
        middle = float(ordered[count // 2])
        reach = widest * max(high - low, LEAST_RANGE * max(1.0, abs(middle)))
        far = np.abs(values - middle) > reach
        if far.any() and far.sum() <= max(1, RARE * count):
            rows |= far
            at = int(np.flatnonzero(far)[0])
            first = first or Outlier(rows, int(column), float(values[at]), low, high)
    return None if first is None else first._replace(rows=np.flatnonzero(rows))


def _peaked(flat: Array) -> Array:
    """Columns whose farthest number is many standard deviations away, as a few outliers always are.  [N, D] -> [D]"""
    mean = flat.mean(0, dtype=np.float64)
    square, farthest = np.zeros_like(mean), np.zeros_like(mean)
    for start in range(0, len(flat), CHUNK):
        away = np.abs(flat[start : start + CHUNK] - mean)
        square += np.square(away).sum(0)
        np.maximum(farthest, away.max(0), out=farthest)
    least = min(25.0, 0.4 * math.sqrt(len(flat)))
    return farthest >= least * np.sqrt(square / len(flat))


def described(key: str, outlier: Outlier) -> str:
    others = f"the others lie between {outlier.low:.4g} and {outlier.high:.4g}"
    more = f", and {len(outlier.rows) - 1} rows more" if len(outlier.rows) > 1 else ""
    return f"'{key}' is {outlier.value:.4g} in row {outlier.rows[0]}, column {outlier.column}; {others}{more}"


def check_outliers(raw: Raw) -> None:
    """Raises on such rows: inputs are scaled by their columns, and one of them makes its column a constant."""
    for key, outlier in outliers(raw).items():
        raise DataError(
            f"{raw.where}: {described(key, outlier)}. It would make its column a constant.\n"
            f"Leave such rows out with: {convert_line(raw.where)} --drop_nonfinite"
        )
