"""HDF5 in D4RL's layout: flat arrays, one row per step, everything else under `infos/` and `metadata/`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.raw import Array, Raw, candidates, check_keys, said_of, the_one
from rl_lightning.errors import DataError
from rl_lightning.io.atomic import atomic_path, file_of_user

JSON = "json:"  # how a value starts that is neither a number, a text nor an array of numbers
MOST_TEXT, MOST_NUMBERS = 65536, 64  # of one entry; D4RL keeps a policy's weights there, which nobody prints


@contextlib.contextmanager
def opened(path: Path) -> Iterator[h5py.File]:
    """The file, read only; whatever a damaged one raises becomes one line."""
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, OverflowError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
        raise DataError(
            f"{path}: damaged, cut short or not HDF5 ({reason}).\nCopy, fetch or record it again"
        ) from None


def read_hdf5(path: Path) -> Raw:
    with opened(path) as file:
        members = members_of(file, path)
        check_keys(str(path), members)
        names = candidates(members)
        rows = next((members[key].shape or (0,))[0] for keys in names.values() for key in keys)
        beside = _infos(file, path, rows)
        check_size(path, [*(members[key] for keys in names.values() for key in keys), *beside.values()])
        arrays = {
            name: the_one(str(path), name, keys, lambda key: read_member(members[key], path))
            for name, keys in names.items()
        }
        infos = {key: read_member(member, path) for key, member in beside.items()}
        metadata = _metadata(file, path) | said_of(names)
    return Raw(str(path), arrays, infos, metadata)


def _infos(file: h5py.File, path: Path, rows: int) -> dict[str, h5py.Dataset]:
    """Arrays below infos/ with one row per step; anything else there is nothing of ours."""
    members = members_of(file.get("infos"), path, "infos/")
    return {
        key: member
        for key, member in members.items()
        if member.dtype.kind in "biuf" and member.shape is not None and member.shape[:1] == (rows,)
    }


def check_size(path: Path, members: list[h5py.Dataset]) -> None:
    check_budget(path, {member.name.lstrip("/"): _size(member) for member in members})


def _size(member: h5py.Dataset) -> int:
    """Bytes once it is read: float64 becomes float32."""
    return int(member.size or 0) * (4 if _narrowed(member) else int(member.dtype.itemsize))


def _narrowed(member: h5py.Dataset) -> bool:
    return bool(member.dtype.kind == "f" and member.dtype.itemsize > 4 and member.shape)


def peek_hdf5(path: Path) -> tuple[dict[str, tuple[tuple[int, ...], np.dtype[Any]]], dict[str, Any]]:
    """Shape and type of each array, and the metadata; no rows are read."""
    with opened(path) as file:
        members = members_of(file, path)
        check_keys(str(path), members)
        names = {name: members[keys[0]] for name, keys in candidates(members).items()}
        shapes = {key: (member.shape or (), member.dtype) for key, member in names.items()}
        return shapes, _metadata(file, path)


def read_columns(path: Path, keys: tuple[str, ...]) -> dict[str, Array]:
    """Some of the arrays only."""
    with opened(path) as file:
        members = members_of(file, path)
        names = candidates(members)
        check_size(path, [members[each] for key in keys for each in names.get(key, [])])
        return {
            key: the_one(str(path), key, names[key], lambda each: read_member(members[each], path))
            for key in keys
            if key in names
        }


def members_of(group: Any, path: Path, prefix: str = "") -> dict[str, h5py.Dataset]:
    """The arrays of a group. Links into other files are refused: a data set is what its own bytes say."""
    members: dict[str, h5py.Dataset] = {}
    if not isinstance(group, h5py.Group):
        return members
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            raise DataError(f"{path}: '{prefix}{key}' is a link to another place; it is not followed")
        member = group[key]
        if not isinstance(member, h5py.Dataset):
            continue
        if member.is_virtual or member.external:
            raise DataError(f"{path}: '{prefix}{key}' has its rows in other files; it is not followed")
        members[key] = member
    return members


def read_member(member: h5py.Dataset, path: Path) -> Array:
    key = member.name.lstrip("/")
    if member.dtype.hasobject:
        raise DataError(
            f"{path}: '{key}' holds objects, not plain numbers; it is not read. Write it anew from its source"
        )
    if member.shape is None:
        raise DataError(f"{path}: '{key}' is an empty entry without rows. Fetch or write the file again")
    # float64 rows (D4RL's v2 infos) become float32 while they are read
    if _narrowed(member):
        out = np.empty(member.shape, np.float32)
        if out.size:
            member.read_direct(out)
        return out
    return np.asarray(member[()])


def _metadata(file: h5py.File, path: Path) -> dict[str, Any]:
    """Small entries below metadata/, nested groups with a slash in the name."""
    metadata: dict[str, Any] = {}
    group = file.get("metadata")
    if not isinstance(group, h5py.Group):
        return metadata

    def visit(prefix: str, part: h5py.Group) -> None:
        for key, member in members_of(part, path, "metadata/").items():
            metadata[prefix + key] = _value(member)
        for key in part:
            if isinstance(part.get(key, getlink=True), h5py.HardLink) and isinstance(part[key], h5py.Group):
                visit(f"{prefix}{key}/", part[key])

    visit("", group)
    return {key: value for key, value in metadata.items() if value is not None}


def _value(member: h5py.Dataset) -> Any:
    """A plain value: text, number, list of numbers; None for anything else."""
    if h5py.check_string_dtype(member.dtype) is not None:
        value = member[()] if member.shape == () and member.nbytes <= MOST_TEXT else None
        return decode(bytes(value)) if isinstance(value, bytes | np.bytes_) else None
    if member.dtype.kind not in "biuf" or member.size is None or member.size > MOST_NUMBERS:
        return None
    return np.asarray(member[()]).tolist()


def decode(text: bytes | str) -> Any:
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    if text.startswith(JSON):
        with contextlib.suppress(ValueError):
            return json.loads(text[len(JSON) :])
    return text


def encode(value: Any) -> Any:
    """A metadata value as a plain array: number, bytes, or JSON in bytes; None for nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return np.bytes_(value.encode())
    if isinstance(value, bool | int | float | np.number):
        return np.asarray(value)
    if isinstance(value, list | tuple) and value and all(type(item) in (int, float) for item in value):
        return np.asarray(value)
    return np.bytes_((JSON + json.dumps(value, default=str)).encode())


def write_hdf5(path: Path, raw: Raw) -> Path:
    """Writes it whole or not at all. Rows are not compressed."""
    with file_of_user(path), atomic_path(path) as temporary, h5py.File(temporary, "w") as file:
        for key, array in raw.arrays.items():
            file.create_dataset(key, data=array)
        for key, array in raw.infos.items():
            file.create_dataset(f"infos/{key}", data=array)
        for key, value in raw.metadata.items():
            plain = encode(value)
            if plain is not None:
                file.create_dataset(f"metadata/{key}", data=plain)
    return path
