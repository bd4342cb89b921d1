"""Signals over time as a picture: one strip each, in units of the data's spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, STRIP, SPREAD = 480, 40, 3.0  # a strip shows so many standard deviations up and down
PAPER, LINE, PEN, OTHER_PEN = (255, 255, 255), (214, 214, 214), (0, 114, 178), (213, 94, 0)


def strip_chart(
    rows: NDArray[np.float32],
    mean: NDArray[np.float32],
    std: NDArray[np.float32],
    steps: int,
    other: NDArray[np.float32] | None = None,
) -> NDArray[np.uint8]:
    """Rows [T, O] of an episode of so many steps, and others in a second colour over them.  -> [H, W, 3]"""
    count = rows.shape[1]
    picture = np.full((STRIP * count, WIDTH, 3), PAPER, np.uint8)
    picture[STRIP // 2 :: STRIP] = LINE
    picture[STRIP - 1 :: STRIP] = LINE
    for curves, pen in ((rows, PEN), (other, OTHER_PEN)):
        if curves is not None and len(curves):
            _draw(picture, np.clip((curves - mean) / std / SPREAD, -1.0, 1.0), steps, pen)
    return picture


def _draw(
    picture: NDArray[np.uint8], height: NDArray[np.float32], steps: int, pen: tuple[int, int, int]
) -> None:
    """A curve in each strip, of heights [T, O] between -1 and 1."""
    place = np.arange(len(height)) / max(steps, 1) * (WIDTH - 1)
    columns = np.arange(int(place[-1]) + 1)
    for signal in range(height.shape[1]):
        level = np.interp(columns, place, height[:, signal])
        middle = signal * STRIP + STRIP / 2 - 1
        ink = np.rint(middle - level * (STRIP / 2 - 3)).astype(int)
        before = np.concatenate([ink[:1], ink[:-1]])
        for column, first, last in zip(
            columns, np.minimum(ink, before), np.maximum(ink, before), strict=True
        ):
            picture[first : last + 2, column] = pen
