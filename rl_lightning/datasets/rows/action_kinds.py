"""What the actions of a file are: continuous within bounds, or discrete and so many."""

from __future__ import annotations

from typing import Any

import numpy as np

from rl_lightning.datasets.formats.raw import Array, Raw, convert_line
from rl_lightning.errors import DataError

SLACK = 1e-3  # how far beyond [-1, 1] an action may lie: rounding, not another scale
MOST_ACTIONS = 65_536  # discrete ones; each is an output of a network


def bounds_of(raw: Raw, width: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The env's bounds of continuous actions by the metadata, per dimension; -1 and 1 where they say nothing."""
    low, high = (
        _numbers(raw, key, width) if raw.metadata.get(key) is not None else np.full(width, default)
        for key, default in (("action_low", -1.0), ("action_high", 1.0))
    )
    check_bounds(f"{raw.where}: 'metadata/action_low' and 'metadata/action_high'", low, high)
    return tuple(low.tolist()), tuple(high.tolist())


def check_bounds(what: str, low: Array, high: Array) -> None:
    """Raises unless each lowest action is a number below the highest one."""
    for i, (least, most) in enumerate(zip(low, high, strict=True)):
        if not least < most:
            raise DataError(
                f"{what}: in dimension {i} the bounds are {least:g} and {most:g}; the low one must be a number below "
                "the high one"
            )


def sizes_of(raw: Raw) -> tuple[int, ...]:
    """How many discrete actions there are, of each component: by the metadata, or as many as are used."""
    actions = raw.arrays["actions"]
    least_sizes = np.atleast_1d(actions.max(0) + 1)
    sizes = least_sizes
    if raw.metadata.get("action_sizes") is not None:
        sizes = _numbers(raw, "action_sizes", len(least_sizes)).astype(np.int64)
    if (least_sizes > sizes).any():
        raise DataError(
            f"{raw.where}: 'actions' go up to {int(least_sizes.max()) - 1}, its metadata allows "
            f"{sizes.tolist()} actions"
        )
    if sizes.max() > MOST_ACTIONS:
        raise DataError(
            f"{raw.where}: 'actions' are whole numbers up to {int(sizes.max()) - 1}; of discrete ones there are at "
            f"most {MOST_ACTIONS}, counted from 0.\nIf they are continuous, write them as floats"
        )
    return tuple(sizes.tolist())


def _numbers(raw: Raw, key: str, width: int) -> Array:
    stored = raw.metadata[key]
    try:
        numbers = np.atleast_1d(np.asarray(stored))
    except ValueError:  # lists of unequal lengths
        numbers = np.zeros((0, 0))
    if numbers.dtype.kind not in "iuf" or numbers.ndim != 1:
        text = str(stored)[:40]
        raise DataError(
            f"{raw.where}: 'metadata/{key}' is '{text}'; it must be {width} numbers, one per dimension"
        )
    if len(numbers) != width:
        raise DataError(f"{raw.where}: 'metadata/{key}' has {len(numbers)} numbers for {width} actions")
    return numbers.astype(np.float64)


def settle_actions(raw: Raw, clipped: bool) -> Raw:
    """Continuous actions must lie in [-1, 1]; where the recording env clips what does not, they are `clipped`, too."""
    actions = raw.arrays["actions"]
    if actions.dtype.kind != "f":
        return raw
    low, high = float(actions.min()), float(actions.max())
    if low >= -1 and high <= 1:
        return raw
    if not clipped and max(-low, high) > 1 + SLACK:
        raise DataError(out_of_bounds(raw))
    outside = int(((actions < -1) | (actions > 1)).any(1).sum())
    metadata = raw.metadata | {"read/actions": f"{outside} rows clipped to [-1, 1]"}
    return raw._replace(arrays={**raw.arrays, "actions": actions.clip(-1, 1)}, metadata=metadata)


def out_of_bounds(raw: Raw) -> str:
    """What to type: the bounds are the env's, which a sample does not tell."""
    actions, line = raw.arrays["actions"], convert_line(raw.where)
    env, width = raw.metadata.get("env_id") or "ENV_ID", actions.shape[1]
    places = [
        ",".join(f"{name}{i}" for i in range(width)) if width < 5 else f"{name}0,{name}1,..." for name in "LH"
    ]
    return (
        f"{raw.where}: 'actions' lie between {actions.min():.4g} and {actions.max():.4g}, not in [-1, 1]. "
        f"Take the bounds of their env:\n{line} --env {env}\n"
        f"or give one per dimension: --action_low {places[0]} --action_high {places[1]}"
    )


def rescaled(raw: Raw, low: Any, high: Any, clip: bool = False) -> Raw:
    """Continuous actions from bounds, one for all dimensions or one each, to [-1, 1]; `clip` those that lie beyond."""
    actions = raw.arrays["actions"]
    if actions.dtype.kind != "f":
        raise DataError(f"{raw.where}: its actions are whole numbers; bounds are for continuous ones")
    width = actions.shape[1]
    sides = [np.atleast_1d(np.asarray(side, np.float64)) for side in (low, high)]
    for name, side in zip(("low", "high"), sides, strict=True):
        if len(side) not in (1, width) or not np.isfinite(side).all():
            raise DataError(
                f"{raw.where}: the {name} bound of its actions is {side.tolist()}; it must be one finite number, or "
                f"{width} of them"
            )
    low, high = (np.broadcast_to(side, (width,)) for side in sides)
    check_bounds(f"{raw.where}: bounds of its actions", low, high)
    mapped = (actions - low) / (high - low) * 2 - 1
    worst = int(np.abs(mapped).max(0).argmax())
    if np.abs(mapped).max() > 1.01 and not clip:
        column = actions[:, worst]
        raise DataError(
            f"{raw.where}: 'actions' lie between {column.min():.4g} and {column.max():.4g} in dimension {worst}, "
            f"beyond {low[worst]:g} to {high[worst]:g}.\n"
            "If its env clipped them while it was recorded, add: --clip_actions"
        )
    bounds = {"action_low": low.tolist(), "action_high": high.tolist()}
    arrays = {**raw.arrays, "actions": mapped.clip(-1, 1).astype(np.float32)}
    return raw._replace(arrays=arrays, metadata=raw.metadata | bounds)
