"""From any format that can be read safely to HDF5 or NPZ."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.arrays import write_file
from rl_lightning.datasets.formats.raw import (
    CLIPPED,
    FROM_DONES,
    LAYOUT,
    MISSING,
    Raw,
    as_in_file,
    check_finite,
    missing_from,
)
from rl_lightning.datasets.layouts.column_map import parse_columns
from rl_lightning.datasets.layouts.recognize import read_any
from rl_lightning.datasets.load import checked, read_source
from rl_lightning.datasets.rows.action_kinds import SLACK, rescaled, settle_actions
from rl_lightning.datasets.rows.episode_rows import drop_nonfinite, ends_of, timeouts_of, without
from rl_lightning.datasets.rows.outliers import check_outliers
from rl_lightning.errors import DataError


def convert(
    name: str,
    target: Path,
    bounds: tuple[Any, Any] | None = None,
    leave_out_bad: bool = False,
    env_id: str | None = None,
    max_episode_steps: int | None = None,
    ends: Literal["truncated", "terminated"] | None = None,
    clip_actions: bool = False,
    columns: str | None = None,
    mask: str | None = None,
) -> tuple[Path, int, int]:
    """Writes `target`; returns it, its rows, and how many bad ones were left out.

    Args:
        name: Name or path of what is read.
        target: An .hdf5 or .npz file that is not there yet.
        bounds: Lowest and highest action, one for all dimensions or one each, mapped onto [-1, 1]; null: those of
            `env_id` where actions lie outside [-1, 1].
        leave_out_bad: Without rows that have NaN or infinite numbers, or one far from all others.
        env_id: The env it was recorded in, for the metadata.
        max_episode_steps: Time limit of a file that does not say where episodes were cut.
        ends: What the ends of episodes are, where the file has no terminals.
        clip_actions: Actions beyond the bounds are clipped to them, as the env did that recorded them.
        columns: Of a table, which columns the arrays are made of: `observations=x,y actions=force episode=trial`.
        mask: Of robomimic's files: those demonstrations alone that this mask lists.
    """
    if target.exists():
        raise DataError(f"{target}: is there already; choose another name or delete it")
    source = locate(name)
    chosen_columns = None if columns is None else parse_columns(columns)
    raw = read_any(source.path, chosen_columns) if source.kind == "file" else read_source(source)
    raw = checked(source, raw)
    raw = with_limit(raw, max_episode_steps)
    raw = raw if ends is None else with_ends(raw, ends)
    raw = raw if mask is None else masked(raw, mask)
    dropped = 0
    if leave_out_bad:
        raw, dropped = drop_nonfinite(raw)
    check_finite(raw)
    if bounds is None and env_id and needs_bounds(raw):
        bounds = env_bounds(raw, env_id)
    if bounds is not None:
        raw = rescaled(raw, *bounds, clip=clip_actions)
    elif clip_actions or CLIPPED in raw.metadata:
        raw = settle_actions(raw, clipped=True)
    check_outliers(raw)
    metadata = {**raw.metadata, "converted_from": source.path.name}
    metadata["converted_layout"] = metadata.pop(LAYOUT, source.kind)
    metadata |= {"env_id": env_id} if env_id else {}
    metadata |= {"rows_left_out": dropped} if dropped else {}
    for stale in ("rows", "episodes", "mean_return"):
        metadata.pop(stale, None)
    path = write_file(target, as_in_file(raw._replace(metadata=metadata)))
    return path, len(raw.arrays["rewards"]), dropped


def with_limit(raw: Raw, steps: int | None) -> Raw:
    """With `timeouts`, from a time limit where the file has none of its own."""
    if steps is not None:
        if "timeouts" in raw.arrays:
            raise DataError(f"{raw.where}: has 'timeouts' of its own; leave --max_episode_steps out")
        raw = raw._replace(metadata=raw.metadata | {"max_episode_steps": steps})
    return raw._replace(arrays={**raw.arrays, "timeouts": timeouts_of(raw)[0]})


def masked(raw: Raw, mask: str) -> Raw:
    """The rows of the demonstrations that a mask of the file lists."""
    if f"mask_{mask}" not in raw.infos:
        names = ", ".join(key.removeprefix("mask_") for key in raw.infos if key.startswith("mask_"))
        raise DataError(f"{raw.where}: no mask '{mask}' (it has {names or 'none'})")
    return without(raw, ~raw.infos[f"mask_{mask}"])


def with_ends(raw: Raw, ends: Literal["truncated", "terminated"]) -> Raw:
    """With terminals, told by whoever knows what the ends of a file's episodes are."""
    missing = missing_from(raw.metadata)
    if "terminals" not in missing and FROM_DONES not in raw.metadata:
        raise DataError(f"{raw.where}: has 'terminals' of its own; leave --ends out")
    last = ends_of(raw, raw.arrays["timeouts"])
    failed = last if ends == "terminated" else np.zeros_like(last)
    metadata = raw.metadata | {
        MISSING: [key for key in missing if key != "terminals"],
        "ends": f"{ends}, as told",
    }
    metadata.pop(FROM_DONES, None)
    return raw._replace(
        arrays={**raw.arrays, "terminals": failed, "timeouts": last & ~failed}, metadata=metadata
    )


def env_bounds(raw: Raw, env_id: str) -> tuple[Any, Any]:
    """The bounds that an env has for its actions; raises where those are not of the file's actions."""
    from rl_lightning.envs.make import EnvConfig, probe_spec

    spec, width = probe_spec(EnvConfig(id=env_id)), raw.arrays["actions"].shape[1]
    if len(spec.action_low) != width:
        raise DataError(
            f"{raw.where}: has {width} actions, {env_id} has {len(spec.action_low)} continuous ones"
        )
    if not np.isfinite([*spec.action_low, *spec.action_high]).all():
        raise DataError(
            f"{env_id} has no bounds of actions; give --action_low and --action_high, one per dimension"
        )
    return spec.action_low, spec.action_high


def needs_bounds(raw: Raw) -> bool:
    """Whether continuous actions lie outside [-1, 1], so that they must be in the env's own units."""
    actions = raw.arrays["actions"]
    return actions.dtype.kind == "f" and float(np.abs(actions).max()) > 1 + SLACK
