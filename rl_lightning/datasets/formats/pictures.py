"""Recorded pictures: rows of bytes in a data set, and frames as an env shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_lightning.errors import DataError

PICTURE = "obs_picture"  # in metadata: channels, height and width of what each row of bytes shows
COLORS = (1, 3)  # channels of one frame
GRAY = (0.299, 0.587, 0.114)
CHUNK = 256  # frames looked at together

Frames = NDArray[np.uint8]


def is_picture(array: NDArray[Any]) -> bool:
    """Whether rows are pictures: bytes with two or three axes each."""
    return array.dtype == np.uint8 and array.ndim in (3, 4)


def picture_rows(array: Frames) -> tuple[Frames, list[int]]:
    """Pictures, channels first or last or without any, as rows of bytes, and their shape with channels first."""
    if array.ndim == 3:
        array = array[:, None]
    elif array.shape[-1] in COLORS and array.shape[1] not in COLORS:
        array = np.moveaxis(array, -1, 1)
    shape = [int(size) for size in array.shape[1:]]
    return np.ascontiguousarray(array).reshape(len(array), math.prod(shape)), shape


def picture_shape(about: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Channels, height and width of a data set's pictures; None where it has none, or does not say so."""
    shape = about.get(PICTURE)
    if not isinstance(shape, list) or len(shape) != 3 or not all(isinstance(size, int) for size in shape):
        return None
    return shape[0], shape[1], shape[2]


def check_frames(where: str, picture: tuple[int, int, int], frame: tuple[int, ...]) -> None:
    """Raises unless frames of an env can be made of recorded pictures."""
    if picture[0] not in COLORS or frame[0] not in COLORS:
        raise DataError(
            f"{where}: its pictures have {picture[0]} channels, the env's frames {frame[0]}; "
            "single frames, gray or RGB, are made to fit"
        )


def fit_frames(pictures: Frames, shape: tuple[int, ...], palette: Frames | None = None) -> Frames:
    """Recorded frames as an env shows them: its size, gray or RGB, or the nearest colour of its palette.

    Args:
        pictures: [T, C, H, W], gray or RGB.
        shape: Channels, height and width of the env's frames.
        palette: RGB of each index that a pixel may be [K, 3]; null: pixels are levels.
    """
    parts = [
        _fit(pictures[start : start + CHUNK], shape, palette) for start in range(0, len(pictures), CHUNK)
    ]
    return np.concatenate(parts)


def _fit(pictures: Frames, shape: tuple[int, ...], palette: Frames | None) -> Frames:
    if palette is not None:  # a colour between two others would be a third one
        return _nearest_color(_picked(pictures, shape[1:]), palette)[:, None]
    sized = _averaged(pictures, shape[1:])
    if shape[0] == 1 and sized.shape[1] == 3:
        sized = np.tensordot(sized, np.array(GRAY), (1, 0))[:, None]
    elif shape[0] == 3 and sized.shape[1] == 1:
        sized = sized.repeat(3, 1)
    return np.rint(sized).clip(0, 255).astype(np.uint8)


def _picked(pictures: Frames, size: tuple[int, ...]) -> Frames:
    """The pixel in the middle of each new one."""
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(int)
        for new, old in zip(size, pictures.shape[2:], strict=True)
    )
    return pictures[:, :, rows][:, :, :, columns]


def _averaged(pictures: Frames, size: tuple[int, ...]) -> NDArray[np.float64]:
    """Every new pixel is the mean of those that it covers, in parts where it covers parts."""
    if pictures.shape[2:] == tuple(size):
        return pictures.astype(np.float64)
    down, across = (_cover(new, old) for new, old in zip(size, pictures.shape[2:], strict=True))
    return np.einsum("ih,tchw,jw->tcij", down, pictures.astype(np.float64), across, optimize=True)


def _cover(new: int, old: int) -> NDArray[np.float64]:
    """How much of each new pixel lies in each old one.  [new, old]"""
    edges = np.arange(new + 1) * old / new
    cells = np.arange(old)
    shared = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return np.clip(shared, 0.0, None) * new / old


def _nearest_color(pictures: Frames, palette: Frames) -> Frames:
    """[T, C, H, W] -> [T, H, W]"""
    rgb = pictures.repeat(3, 1) if pictures.shape[1] == 1 else pictures
    colors, place = np.unique(np.moveaxis(rgb, 1, -1).reshape(-1, 3), axis=0, return_inverse=True)
    apart = (colors[:, None].astype(np.int32) - palette[None].astype(np.int32)) ** 2
    return apart.sum(-1).argmin(1).astype(np.uint8)[place].reshape(len(rgb), *rgb.shape[2:])


def stack_frames(frames: Frames, num_stack: int) -> Frames:
    """Frames of one episode as stacks, the first one repeated before it.  [T, C, H, W] -> [T, F C, H, W]"""
    place = np.arange(len(frames))[:, None] - np.arange(num_stack - 1, -1, -1)
    return frames[place.clip(0)].reshape(len(frames), num_stack * frames.shape[1], *frames.shape[2:])
