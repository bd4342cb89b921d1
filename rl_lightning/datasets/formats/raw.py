"""Arrays as a file holds them, under D4RL's names, and the first look at whether they can be a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl_lightning.datasets.formats.pictures import PICTURE, is_picture, picture_rows
from rl_lightning.errors import DataError

Array = np.ndarray
NEEDED = ("observations", "actions")
VALUED = ("rewards", "terminals")  # what values are learned from, and demonstrations do without
OPTIONAL = (*VALUED, "next_observations", "timeouts")
OBSERVED = ("observations", "next_observations")
# in metadata
MISSING = "read/missing"  # those of VALUED that the file does not have
LAYOUT = "read/layout"  # how the file was read
GOALS = "read/goals"  # terminals are goals that the recording goes on behind
PARTS = "obs_parts"  # names, kinds and shapes of what lies side by side in a row of bytes
CLIPPED = (
    "read/clipped"  # whoever recorded it clipped actions to [-1, 1], so that what lies beyond may be clipped
)
# other names that files use for the same thing
ALIASES = {
    "obs": "observations",
    "observation": "observations",
    "states": "observations",
    "action": "actions",
    "acts": "actions",
    "reward": "rewards",
    "rews": "rewards",
    "next_obs": "next_observations",
    "next_observation": "next_observations",
    "next_states": "next_observations",
    "terminated": "terminals",
    "terminal": "terminals",
    "terminations": "terminals",
    "truncated": "timeouts",
    "timeout": "timeouts",
    "truncations": "timeouts",
    "new_obs": "next_observations",
    "terminateds": "terminals",
    "truncateds": "timeouts",
}
DONES = ("dones", "done")  # stand for terminals where nothing else does: they may count time limits, too
FROM_DONES = "read/dones"  # in metadata: that they did


class Raw(NamedTuple):
    """What was read, before anything is made of it."""

    where: str  # file, for messages
    arrays: dict[str, Array]  # NEEDED and, where there, OPTIONAL; of checked ones VALUED, too
    infos: dict[str, Array] = {}  # noqa: RUF012  (never mutated) # qpos, qvel ... one row each
    metadata: dict[str, Any] = {}  # noqa: RUF012


def canonical(key: str) -> str | None:
    """The name that we use for an array; None for one that we do not know."""
    key = ALIASES.get(key, key)
    return key if key in (*NEEDED, *OPTIONAL) else None


def wanted(key: str) -> bool:
    """Whether a data set can have a use for an array of this name."""
    return canonical(key) is not None or key in DONES or key.startswith(("infos/", "metadata/"))


def candidates(keys_of_file: Iterable[str]) -> dict[str, list[str]]:
    """For each array that we know: what a file holds that may be it. D4RL's own name leaves out all others."""
    keys = list(keys_of_file)
    names: dict[str, list[str]] = {}
    for key in keys:
        name = canonical(key)
        if name is not None:
            names.setdefault(name, []).append(key)
    names = {name: [name] if name in fitting else fitting for name, fitting in names.items()}
    dones = [key for key in keys if key in DONES]
    return names if "terminals" in names or not dones else names | {"terminals": dones}


def the_one(where: str, name: str, keys: list[str], read: Callable[[str], Any]) -> Any:
    """The array `name` of a file that holds it under one or more names; raises if those differ."""
    first, *others = keys
    value = read(first)
    for other in others:
        if not _same(value, read(other)):
            raise DataError(
                f"{where}: both '{first}' and '{other}' may be '{name}', and they differ.\n"
                f"Name the right one '{name}', or leave the other out"
            )
    return value


def _same(value: Any, other: Any) -> bool:
    one, two = np.asarray(value), np.asarray(other)
    return np.array_equal(one, two, equal_nan=one.dtype.kind == "f" == two.dtype.kind)


def said_of(names: dict[str, list[str]]) -> dict[str, str]:
    """What the metadata say of arrays that were read from a name that may mean something else."""
    key = names.get("terminals", [""])[0]
    return {FROM_DONES: f"terminals are the file's '{key}'"} if key in DONES else {}


def convert_line(where: str) -> str:
    return f"rl data convert {where} {Path(where).stem}-new.hdf5"


def check_keys(where: str, members: dict[str, Any]) -> None:
    """Raises if a needed array is missing; `members` is what the file holds, by its own names."""
    have = candidates(members)
    missing = [key for key in NEEDED if key not in have]
    if missing:
        there = ", ".join(sorted(members)[:12]) or "nothing"
        raise DataError(
            f"{where}: no array '{missing[0]}' (it holds {there}).\n"
            "A data set needs observations and actions, one row per step. Values need rewards and terminals, too"
        )


def check_arrays(raw: Raw) -> Raw:
    """The same arrays with settled shapes and types; raises on what cannot be rows of experience."""
    where, arrays = raw.where, dict(raw.arrays)
    check_keys(where, arrays)
    for key, array in arrays.items():
        arrays[key] = _plain(where, key, np.asarray(array))
    _check_lengths(where, arrays)
    raw, arrays = _with_stand_ins(raw, arrays)
    raw, arrays = _with_flat_pictures(raw, arrays)
    as_bytes = PARTS in raw.metadata or PICTURE in raw.metadata
    for key in OBSERVED:
        if key in arrays:
            arrays[key] = _observations(where, key, arrays[key], as_bytes)
    _same_shape(where, arrays)
    for key in ("rewards", "terminals", "timeouts"):
        if key in arrays:
            arrays[key] = _column(where, key, arrays[key])
    for key in ("terminals", "timeouts"):
        if key in arrays:
            arrays[key] = _flags(where, key, arrays[key])
    if FROM_DONES in raw.metadata and "timeouts" in arrays:  # an end by the time limit is not a terminal
        arrays["terminals"] = arrays["terminals"] & ~arrays["timeouts"]
    arrays["rewards"] = _float32(where, "rewards", arrays["rewards"])
    arrays["actions"] = _actions(where, arrays["actions"])
    return raw._replace(arrays=arrays)


def missing_from(metadata: dict[str, Any]) -> tuple[str, ...]:
    """Those of rewards and terminals that a file does not have."""
    return tuple(metadata.get(MISSING, ()))


def _with_stand_ins(raw: Raw, arrays: dict[str, Array]) -> tuple[Raw, dict[str, Array]]:
    """Zeros in place of what demonstrations do without; the metadata say so, and whoever learns values refuses."""
    rows, missing = len(arrays["observations"]), [key for key in VALUED if key not in arrays]
    if not missing:
        return raw, arrays
    stand_ins = {"rewards": np.zeros(rows, np.float32), "terminals": np.zeros(rows, bool)}
    metadata = raw.metadata | {MISSING: missing}
    return raw._replace(metadata=metadata), arrays | {key: stand_ins[key] for key in missing}


def _with_flat_pictures(raw: Raw, arrays: dict[str, Array]) -> tuple[Raw, dict[str, Array]]:
    """Pictures as rows of bytes; the metadata keep their shape."""
    flat = {key: picture_rows(arrays[key]) for key in OBSERVED if key in arrays and is_picture(arrays[key])}
    if "observations" not in flat:
        return raw, arrays
    metadata = raw.metadata | {PICTURE: flat["observations"][1]}
    return raw._replace(metadata=metadata), arrays | {key: rows for key, (rows, _) in flat.items()}


def as_in_file(raw: Raw) -> Raw:
    """The same without stand-ins, to be written."""
    missing = missing_from(raw.metadata)
    arrays = {key: array for key, array in raw.arrays.items() if key not in missing}
    return raw._replace(arrays=arrays, metadata={k: v for k, v in raw.metadata.items() if k != MISSING})


def _check_lengths(where: str, arrays: dict[str, Array]) -> None:
    rows = len(arrays["observations"])
    if rows == 0:
        raise DataError(f"{where}: 'observations' has no rows; the file is empty. Record or fetch it again")
    for key, array in arrays.items():
        if len(array) != rows:
            raise DataError(
                f"{where}: '{key}' has {len(array)} rows and 'observations' {rows}; each needs one per step.\n"
                "The file was cut short or its arrays belong to different recordings"
            )


def _plain(where: str, key: str, array: Array) -> Array:
    if array.dtype.hasobject or array.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: '{key}' holds {_kind(array.dtype)}, not plain numbers; it is not read.\n"
            f"Convert it from its source: {convert_line(where)}"
        )
    if array.ndim == 0:
        raise DataError(f"{where}: '{key}' is a single number, not one row per step")
    return array


def _kind(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject:
        return "pickled Python objects"
    return {"U": "text", "S": "text", "c": "complex numbers"}.get(dtype.kind, str(dtype))


def _float32(where: str, key: str, array: Array) -> Array:
    with np.errstate(over="ignore"):  # a number that float32 cannot hold is found as infinite, and named
        return np.ascontiguousarray(array, dtype=np.float32)


def _observations(where: str, key: str, array: Array, as_bytes: bool) -> Array:
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(
            f"{where}: '{key}' has shape {array.shape}; flat observations are needed, one row of numbers per step"
        )
    if as_bytes and array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    return _float32(where, key, array)


def _same_shape(where: str, arrays: dict[str, Array]) -> None:
    following = arrays.get("next_observations")
    if following is not None and following.shape != arrays["observations"].shape:
        raise DataError(
            f"{where}: 'next_observations' has shape {following.shape}, 'observations' "
            f"{arrays['observations'].shape}; they must agree"
        )


def _column(where: str, key: str, array: Array) -> Array:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{where}: '{key}' has shape {array.shape}; one number per step is needed")
    return array


def _flags(where: str, key: str, array: Array) -> Array:
    if array.dtype == np.bool_:
        return array
    flags = array == 1
    if not (flags | (array == 0)).all():
        row = int(np.flatnonzero(~(flags | (array == 0)))[0])
        raise DataError(f"{where}: '{key}' must be 0 or 1 in every row; row {row} is {array[row]}")
    return flags


def _actions(where: str, array: Array) -> Array:
    if array.dtype.kind in "iub":
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim > 2:
            raise DataError(f"{where}: 'actions' has shape {array.shape}; one row per step is needed")
        array = array.astype(np.int64)
        if array.size and array.min() < 0:
            raise DataError(f"{where}: 'actions' are whole numbers, and some are negative; they count from 0")
        return array
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise DataError(f"{where}: 'actions' has shape {array.shape}; one row of numbers per step is needed")
    return _float32(where, "actions", array)


def first_bad(raw: Raw) -> dict[str, Array]:
    """For each array with numbers that are not finite: the rows that have them."""
    bad_rows = {}
    for key, array in raw.arrays.items():
        if array.dtype.kind != "f":
            continue
        flat = array.reshape(len(array), -1)
        # One pass without a mask: a sum is finite if every number is, but for overflow.
        if not np.isfinite(flat.sum(dtype=np.float64)):
            bad = np.flatnonzero(~np.isfinite(flat).all(1))
            if len(bad):
                bad_rows[key] = bad
    return bad_rows


def check_finite(raw: Raw) -> None:
    for key, rows in first_bad(raw).items():
        raise DataError(
            f"{raw.where}: '{key}' has NaN or infinite numbers in {len(rows)} rows, first in row {rows[0]}.\n"
            f"Leave those rows out with: {convert_line(raw.where)} --drop_nonfinite"
        )
