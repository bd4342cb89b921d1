"""From any format that can be read safely to HDF5 or NPZ."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rl_lightning.datasets.episodes import drop_bad, timeouts_of
from rl_lightning.datasets.foreign import read_any
from rl_lightning.datasets.formats import write_file
from rl_lightning.datasets.load import checked, read_source
from rl_lightning.datasets.places import locate
from rl_lightning.datasets.raw import Raw, check_finite
from rl_lightning.errors import DataError


def convert(
    name: str,
    target: Path,
    bounds: tuple[float, float] | None = None,
    leave_out_bad: bool = False,
    env_id: str | None = None,
    max_episode_steps: int | None = None,
) -> tuple[Path, int, int]:
    """Writes `target`; returns it, its rows, and how many bad ones were left out.

    Args:
        name: Name or path of what is read.
        target: An .hdf5 or .npz file that is not there yet.
        bounds: Lowest and highest action, mapped onto [-1, 1].
        leave_out_bad: Without rows that have NaN or infinite numbers.
        env_id: The env it was recorded in, for the metadata.
        max_episode_steps: Time limit of a file that does not say where episodes were cut.
    """
    if target.exists():
        raise DataError(f"{target}: is there already; choose another name or delete it")
    source = locate(name)
    raw = read_any(source.path) if source.kind == "file" else read_source(source)
    raw = checked(source, raw)
    raw = with_limit(raw, max_episode_steps)
    dropped = 0
    if leave_out_bad:
        raw, dropped = drop_bad(raw)
    check_finite(raw)
    if bounds is not None:
        raw = rescaled(raw, *bounds)
    metadata = {**raw.metadata, "converted_from": source.path.name}
    metadata |= {"env_id": env_id} if env_id else {}
    metadata |= {"rows_left_out": dropped} if dropped else {}
    for stale in ("rows", "episodes", "mean_return"):
        metadata.pop(stale, None)
    path = write_file(target, raw._replace(metadata=metadata))
    return path, len(raw.arrays["rewards"]), dropped


def with_limit(raw: Raw, steps: int | None) -> Raw:
    """With `timeouts`, from a time limit where the file has none of its own."""
    if steps is not None:
        if "timeouts" in raw.arrays:
            raise DataError(f"{raw.where}: has 'timeouts' of its own; leave --max_episode_steps out")
        raw = raw._replace(metadata=raw.metadata | {"max_episode_steps": steps})
    return raw._replace(arrays={**raw.arrays, "timeouts": timeouts_of(raw)[0]})


def rescaled(raw: Raw, low: float, high: float) -> Raw:
    """Continuous actions from [low, high] to [-1, 1]."""
    actions = raw.arrays["actions"]
    if actions.dtype.kind != "f":
        raise DataError(f"{raw.where}: its actions are whole numbers; bounds are for continuous ones")
    if not low < high:
        raise DataError(f"--action_low {low:g} must be less than --action_high {high:g}")
    mapped = (actions - low) / (high - low) * 2 - 1
    if np.abs(mapped).max() > 1.01:
        raise DataError(
            f"{raw.where}: 'actions' lie between {actions.min():.4g} and {actions.max():.4g}, "
            f"beyond {low:g} to {high:g}"
        )
    width = actions.shape[1]
    bounds = {"action_low": [float(low)] * width, "action_high": [float(high)] * width}
    arrays = {**raw.arrays, "actions": mapped.clip(-1, 1).astype(np.float32)}
    return raw._replace(arrays=arrays, metadata=raw.metadata | bounds)
