"""Encodings of Gymnasium spaces: any observation as one array, any action as one row."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.errors import ConfigError
from rl_lightning.observations import FLOAT, ObsLayout, ObsPart

Array = NDArray[Any]
CHANNELS = (1, 3, 4)  # grey, RGB, RGBA


def is_image(space: spaces.Space[Any]) -> bool:
    """Pixels: a uint8 Box of two or three axes, each long enough to be a picture."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) in (2, 3)


def is_channels_last(shape: tuple[int, ...]) -> bool:
    """HWC unless the first axis can only be the channels."""
    return len(shape) == 3 and not (shape[0] in CHANNELS and shape[2] not in CHANNELS)


def obs_parts(space: spaces.Space[Any], channels_first: bool = False) -> list[ObsPart]:
    """The entries of a Dict or Tuple, and of those within it, by dotted names; none for any other space."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return []
    parts = []
    for key, child in _parts(space):
        inner = obs_parts(child, channels_first)
        if inner:
            parts += [ObsPart(f"{key}.{part.name}", part.kind, part.shape) for part in inner]
        elif is_image(child):
            parts.append(ObsPart(str(key), "picture", _picture_shape(child, channels_first)))
        else:
            kind = "discrete" if isinstance(child, spaces.Discrete) else "vector"
            parts.append(ObsPart(str(key), kind, _flat_bounds(child)[0].shape))
    return parts


def _picture_shape(space: spaces.Space[Any], channels_first: bool) -> tuple[int, ...]:
    """Of a picture with its channels first."""
    shape = tuple(int(n) for n in space.shape or ())
    if len(shape) == 2:
        return (1, *shape)
    return (shape[2], shape[0], shape[1]) if not channels_first and is_channels_last(shape) else shape


def _values(space: spaces.Space[Any], value: Any) -> list[tuple[spaces.Space[Any], Any]]:
    """The leaves of a Dict or Tuple with their values, in the order of `obs_parts`."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return [leaf for key, child in _parts(space) for leaf in _values(child, value[key])]
    return [(space, value)]


def _parts(space: spaces.Space[Any]) -> list[tuple[Any, spaces.Space[Any]]]:
    """Children of a Dict (sorted keys) or Tuple (given order)."""
    if isinstance(space, spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces)]
    assert isinstance(space, spaces.Tuple), space
    return list(enumerate(space.spaces))


class ObsEncoder:
    """Makes one array of an observation: pixels stay uint8 [C, H, W], a Dict with pictures becomes a row of bytes (see
    observations.py), everything else is a flat float32 row.

    Args:
        space: the env's observation space.
        channels_first: a three-axis uint8 Box is [C, H, W] already, and so are those in a Dict.
    """

    def __init__(self, space: spaces.Space[Any], channels_first: bool = False) -> None:
        self.space = space
        self.image = is_image(space)
        self.channels_first = channels_first
        self.parts = obs_parts(space, channels_first)
        self.layout = ObsLayout.of(self.parts)
        self.bytes = self.layout.has_pictures
        if self.bytes:
            self.encoded: spaces.Box = spaces.Box(0, 255, (self.layout.width,), np.uint8)
        elif self.image:
            shape = space.shape
            assert shape is not None
            self.transpose = not channels_first and is_channels_last(shape)
            if len(shape) == 2:
                shape = (1, *shape)
            elif self.transpose:
                shape = (shape[2], shape[0], shape[1])
            self.encoded = spaces.Box(0, 255, shape, np.uint8)
        elif channels_first and isinstance(space, spaces.Box) and len(space.shape) == 3:
            self.encoded = space  # frames that were scaled to floats
        else:
            low, high = _flat_bounds(space)
            self.encoded = spaces.Box(low, high, dtype=np.float32)
        self.plain = isinstance(space, spaces.Box) and not self.image
        self.same = self.plain and space.dtype == np.float32 and space.shape == self.encoded.shape

    def __call__(self, obs: Any) -> Array:
        if self.same:
            return obs
        if self.plain:
            return np.asarray(obs, np.float32).reshape(self.encoded.shape)
        if self.image:
            if obs.ndim == 2:
                return obs[None]
            return obs.transpose(2, 0, 1) if self.transpose else obs
        if self.bytes:
            return self._as_bytes(obs)
        row = np.zeros(self.encoded.shape, np.float32)
        _write(self.space, obs, row, 0)
        return row

    def _as_bytes(self, obs: Any) -> Array:
        row = np.zeros(self.layout.width, np.uint8)
        seen = FLOAT * self.layout.numbers
        numbers, at = row[:seen].view(np.float32), 0
        for space, value in _values(self.space, obs):
            if not is_image(space):
                at = _write(space, value, numbers, at)
                continue
            picture = np.asarray(value, np.uint8)
            if picture.shape != space.shape:
                raise ValueError(f"a picture of shape {picture.shape}")
            if picture.ndim == 3 and not self.channels_first and is_channels_last(picture.shape):
                picture = picture.transpose(2, 0, 1)
            row[seen : seen + picture.size] = picture.reshape(-1)
            seen += picture.size
        return row


def _flat_bounds(space: spaces.Space[Any]) -> tuple[Array, Array]:
    if isinstance(space, spaces.Box):
        return space.low.reshape(-1).astype(np.float32), space.high.reshape(-1).astype(np.float32)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        width = _one_hot_width(space)
        return np.zeros(width, np.float32), np.ones(width, np.float32)
    if isinstance(space, spaces.Dict | spaces.Tuple):
        bounds = [_flat_bounds(part) for _, part in _parts(space)]
        if not bounds:
            raise ConfigError("the observation space is empty")
        return np.concatenate([low for low, _ in bounds]), np.concatenate([high for _, high in bounds])
    raise ConfigError(
        f"observation space {type(space).__name__} is not supported "
        "(Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these are); "
        "wrap the env so that it returns one of these"
    )


def _one_hot_width(space: spaces.Space[Any]) -> int:
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    assert isinstance(space, spaces.MultiBinary), space
    return int(np.prod(space.shape))


def _write(space: spaces.Space[Any], value: Any, row: Array, at: int) -> int:
    """Write `value` into `row` from position `at`; return the position after it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in _parts(space):
            at = _write(part, value[key], row, at)
        return at
    if isinstance(space, spaces.Discrete):
        row[at + int(value) - int(space.start)] = 1.0
        return at + int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        sizes = space.nvec.reshape(-1)
        offsets = np.cumsum(sizes) - sizes
        row[at + offsets + np.asarray(value).reshape(-1) - space.start.reshape(-1)] = 1.0
        return at + int(sizes.sum())
    flat = np.asarray(value).reshape(-1)
    row[at : at + flat.size] = flat
    return at + flat.size


class ActionEncoder:
    """One stored action row <-> the env's own action.

    Args:
        space: the env's action space.
        rescale: map [-1, 1] onto finite bounds of a Box; else only clip to them.
    """

    def __init__(self, space: spaces.Space[Any], rescale: bool = True) -> None:
        self.space = space
        self.leaves = _leaves(space)
        kinds = {_kind(leaf) for leaf in self.leaves}
        if len(kinds) > 1:
            raise ConfigError(
                f"action space {space} mixes continuous and discrete parts, which is not supported; "
                "wrap the env so that its actions are of one kind"
            )
        self.continuous = kinds == {"continuous"}
        self.sizes: tuple[int, ...] = ()
        self.low = self.high = np.zeros(0, np.float32)
        if self.continuous:
            self._init_continuous(rescale)
        else:
            self._init_discrete()

    def _init_continuous(self, rescale: bool) -> None:
        self.low = np.concatenate([leaf.low.reshape(-1) for leaf in self.leaves]).astype(np.float32)
        self.high = np.concatenate([leaf.high.reshape(-1) for leaf in self.leaves]).astype(np.float32)
        finite = np.isfinite(self.low) & np.isfinite(self.high)
        moved = finite & rescale
        one = np.float32(1.0)
        self._min = np.where(moved, -one, self.low)
        self._max = np.where(moved, one, self.high)
        self._bounded = bool((np.isfinite(self._min) | np.isfinite(self._max)).any())
        low, high = np.where(moved, self.low, -one), np.where(moved, self.high, one)
        self._scale, self._shift = (high - low) / 2, (high + low) / 2
        self._moved = bool(((self._scale != 1) | (self._shift != 0)).any())
        self.kind = "continuous"
        self.shape: tuple[int, ...] = (self.low.size,)
        self.encoded: spaces.Space[Any] = spaces.Box(self._min, self._max, dtype=np.float32)

    def _init_discrete(self) -> None:
        sizes = np.concatenate([_sizes(leaf) for leaf in self.leaves])
        self.start = np.concatenate([_starts(leaf) for leaf in self.leaves])
        self.sizes = tuple(int(size) for size in sizes)
        if isinstance(self.space, spaces.Discrete):
            self.kind, self.shape, self.encoded = "discrete", (), spaces.Discrete(self.sizes[0])
        else:
            self.kind, self.shape, self.encoded = "multi_discrete", (len(sizes),), spaces.MultiDiscrete(sizes)

    def decode(self, action: Any) -> Any:
        """The env's action of one encoded action."""
        return self.decode_batch(np.asarray(action)[None])[0]

    def decode_batch(self, actions: Array) -> list[Any]:
        """The env's actions of encoded actions [N, ...]."""
        if self.kind == "discrete":
            start = self.start[0]
            return (actions + start).tolist() if start else actions.tolist()
        if self.continuous:
            rows = actions.astype(np.float32)
            if self._bounded:
                rows = np.minimum(np.maximum(rows, self._min), self._max)
            if self._moved:
                rows = np.minimum(np.maximum(rows * self._scale + self._shift, self.low), self.high)
        else:
            rows = actions.astype(np.int64) + self.start
        if len(self.leaves) == 1 and self.space is self.leaves[0]:
            space = self.space
            if space.shape != rows.shape[1:] or space.dtype != rows.dtype:
                rows = rows.astype(space.dtype).reshape(len(rows), *(space.shape or ()))
            return list(rows)
        return [_rebuild(self.space, row, 0)[0] for row in rows]


def _leaves(space: spaces.Space[Any]) -> list[Any]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        leaves = [leaf for _, part in _parts(space) for leaf in _leaves(part)]
        if not leaves:
            raise ConfigError("the action space is empty")
        return leaves
    return [space]


def _kind(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return "continuous"
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return "discrete"
    raise ConfigError(
        f"action space {space} is not supported "
        "(a float Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of one kind of these are)"
    )


def _sizes(space: Any) -> Array:
    if isinstance(space, spaces.Discrete):
        return np.array([space.n], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.reshape(-1).astype(np.int64)
    return np.full(int(np.prod(space.shape)), 2, np.int64)


def _starts(space: Any) -> Array:
    if isinstance(space, spaces.Discrete):
        return np.array([space.start], np.int64)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.reshape(-1).astype(np.int64)
    return np.zeros(int(np.prod(space.shape)), np.int64)


def _rebuild(space: spaces.Space[Any], row: Array, at: int) -> tuple[Any, int]:
    """The value of `space` that starts at `at` in a flat row, and the position after it."""
    if isinstance(space, spaces.Dict):
        values = {}
        for key, part in _parts(space):
            values[key], at = _rebuild(part, row, at)
        return values, at
    if isinstance(space, spaces.Tuple):
        items = []
        for _, part in _parts(space):
            item, at = _rebuild(part, row, at)
            items.append(item)
        return tuple(items), at
    if isinstance(space, spaces.Discrete):
        return int(row[at]), at + 1
    shape = space.shape or ()
    size = int(np.prod(shape))
    return row[at : at + size].astype(space.dtype).reshape(shape), at + size
