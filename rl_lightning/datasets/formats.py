"""Files other than HDF5 that training may read: .npz without pickles, and .pt with tensors only."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.hdf5 import decode, encode, read_hdf5, write_hdf5
from rl_lightning.datasets.places import CONVERTIBLE, READABLE
from rl_lightning.datasets.raw import Raw, canonical, check_keys
from rl_lightning.errors import DataError


def read_file(path: Path) -> Raw:
    """A file by its suffix. Nothing that could hold code is opened."""
    suffix = path.suffix.lower()
    if suffix in (".hdf5", ".h5"):
        return read_hdf5(path)
    if suffix == ".npz":
        return sort_out(str(path), _read_npz(path))
    if suffix == ".pt":
        return sort_out(str(path), _read_pt(path))
    if suffix in CONVERTIBLE:
        what = "a pickle can run code" if suffix != ".json" else "JSON is slow and loses types"
        new = path.with_suffix(".hdf5")
        raise DataError(
            f"{path}: training does not read it ({what}).\nConvert it with: rl data convert {path} {new}"
        )
    raise DataError(f"{path}: '{suffix}' is no known format; {', '.join(READABLE)} are read")


def write_file(path: Path, raw: Raw) -> Path:
    """Writes .hdf5, .h5 or .npz, whole or not at all."""
    suffix = path.suffix.lower()
    if suffix in (".hdf5", ".h5"):
        return write_hdf5(path, raw)
    if suffix != ".npz":
        raise DataError(f"{path}: data sets are written as .hdf5 or .npz")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    found = {key: encode(value) for key, value in raw.metadata.items()}
    content = {**raw.arrays, **{f"infos/{key}": array for key, array in raw.infos.items()}}
    content |= {f"metadata/{key}": value for key, value in found.items() if value is not None}
    try:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **content)
        os.replace(temporary, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        temporary.unlink(missing_ok=True)
    return path


def sort_out(where: str, found: dict[str, Any]) -> Raw:
    """Arrays under our names, infos and metadata, from a flat dictionary."""
    metadata = (
        dict(found.pop("metadata", None) or {}) if isinstance(found.get("metadata"), dict | None) else {}
    )
    arrays: dict[str, np.ndarray] = {}
    infos: dict[str, np.ndarray] = {}
    for key, value in found.items():
        name = canonical(key)
        if name is not None:
            arrays[name] = value
        elif key.startswith("infos/"):
            infos[key.removeprefix("infos/")] = value
        elif key.startswith("metadata/"):
            metadata[key.removeprefix("metadata/")] = _plain(value)
    check_keys(where, found)
    return Raw(where, arrays, infos, metadata)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return decode(value) if isinstance(value, bytes | str) else value


def _read_npz(path: Path) -> dict[str, Any]:
    key = ""
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: holds one array without a name; a data set needs several")
            found = {}
            for key in file.files:
                found[key] = file[key]
            return found
    except ValueError as error:
        if "allow_pickle" in str(error) or "Object arrays" in str(error):
            what = f"'{key}' holds pickled Python objects" if key else "it is a pickle"
            raise DataError(
                f"{path}: {what}; it is not read, since a pickle can run code.\nWrite it anew with plain arrays"
            ) from None
        raise _damaged(path, error) from None
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError) as error:
        raise _damaged(path, error) from None


def _read_pt(path: Path) -> dict[str, Any]:
    import torch  # takes a second, which commands that only look do not have

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        if "weights_only" in str(error) or "Weights only" in str(error):
            raise DataError(
                f"{path}: holds more than tensors and plain values; it is not read, since that can run code"
            ) from None
        raise _damaged(path, error) from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: holds a {type(found).__name__}; a dictionary of tensors is needed")
    plain = {}
    for key, value in found.items():
        if isinstance(value, torch.Tensor):
            value = (value.float() if value.dtype == torch.bfloat16 else value).detach().numpy()
        plain[str(key)] = np.asarray(value) if isinstance(value, list | tuple) else value
    return plain


def _damaged(path: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
    return DataError(
        f"{path}: damaged, cut short or no {path.suffix} file ({reason}). Copy or write it again"
    )
