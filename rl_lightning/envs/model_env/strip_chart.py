"""Signals over time as a picture: one strip each, in units of the data's spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH, STRIP, SPREAD = 480, 40, 3.0  # a strip shows so many standard deviations up and down
PAPER, LINE, PEN = (255, 255, 255), (214, 214, 214), (0, 114, 178)


def strip_chart(
    rows: NDArray[np.float32], mean: NDArray[np.float32], std: NDArray[np.float32], steps: int
) -> NDArray[np.uint8]:
    """Rows [T, O] of an episode of so many steps.  -> [H, W, 3]"""
    count = rows.shape[1]
    picture = np.full((STRIP * count, WIDTH, 3), PAPER, np.uint8)
    picture[STRIP // 2 :: STRIP] = LINE
    picture[STRIP - 1 :: STRIP] = LINE
    height = np.clip((rows - mean) / std / SPREAD, -1.0, 1.0)
    place = np.arange(len(rows)) / max(steps, 1) * (WIDTH - 1)
    columns = np.arange(int(place[-1]) + 1)
    for signal in range(count):
        level = np.interp(columns, place, height[:, signal])
        middle = signal * STRIP + STRIP / 2 - 1
        ink = np.rint(middle - level * (STRIP / 2 - 3)).astype(int)
        before = np.concatenate([ink[:1], ink[:-1]])
        for column, first, last in zip(
            columns, np.minimum(ink, before), np.maximum(ink, before), strict=True
        ):
            picture[first : last + 2, column] = PEN
    return picture
