"""Arrays by the names that files have for them, made into ours; and files of arrays, written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.hdf5 import MOST_NUMBERS, decode, encode, write_hdf5
from rl_lightning.datasets.formats.raw import Raw, candidates, check_keys, said_of, the_one
from rl_lightning.errors import DataError
from rl_lightning.io.atomic import atomic_open, file_of_user


def write_file(path: Path, raw: Raw) -> Path:
    """Writes .hdf5, .h5 or .npz, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix in (".hdf5", ".h5"):
        return write_hdf5(path, raw)
    if suffix != ".npz":
        raise DataError(f"{path}: data sets are written as .hdf5 or .npz")
    metadata = {key: encode(value) for key, value in raw.metadata.items()}
    content = {**raw.arrays, **{f"infos/{key}": array for key, array in raw.infos.items()}}
    content |= {f"metadata/{key}": value for key, value in metadata.items() if value is not None}
    with file_of_user(path), atomic_open(path) as file:
        np.savez(file, allow_pickle=False, **content)
    return path


def sort_out(where: str, members: dict[str, Any]) -> Raw:
    """Arrays under our names, infos and metadata, from a flat dictionary."""
    metadata = (
        dict(members.pop("metadata", None) or {}) if isinstance(members.get("metadata"), dict | None) else {}
    )
    check_keys(where, members)
    names = candidates(members)
    arrays = {name: the_one(where, name, keys, lambda key: members[key]) for name, keys in names.items()}
    infos: dict[str, np.ndarray] = {}
    for key, value in members.items():
        if key.startswith("infos/"):
            infos[key.removeprefix("infos/")] = value
        elif key.startswith("metadata/") and np.size(value) <= MOST_NUMBERS:
            metadata[key.removeprefix("metadata/")] = _plain(value)
    return Raw(where, arrays, infos, metadata | said_of(names))


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return decode(value) if isinstance(value, bytes | str) else value
