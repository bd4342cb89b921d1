"""Arrays of an .npz: every header is looked at before the first row is read, and no pickle ever is."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.raw import wanted
from rl_lightning.errors import DataError

# first bytes of files that often have the wrong name
MAGIC = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "a single array (.npy)",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"7z\xbc\xaf": "a 7z archive",
}
DAMAGES = (
    OSError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    NotImplementedError,
    ValueError,
    RuntimeError,
    TokenError,  # of a header of numpy's
    SyntaxError,
    TypeError,
)


def names_of(path: Path) -> list[str]:
    """What an .npz holds, by the file's own names."""
    check_magic(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]
    except DAMAGES as error:
        raise damaged(path, error) from None


def read_npz(path: Path, also: Collection[str] = ()) -> dict[str, Any]:
    """The arrays that a data set may have, and `also` others, by the file's own names."""
    check_magic(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(path, archive, also)
            sizes = {key: _size(path, archive, key, info) for key, info in members.items()}
            check_budget(path, sizes)
            arrays = {key: _array(archive, info) for key, info in members.items()}
            return dict.fromkeys(name.removesuffix(".npy") for name in archive.namelist()) | arrays
    except DataError:
        raise
    except (*DAMAGES, MemoryError) as error:
        raise damaged(path, error) from None


def check_magic(path: Path) -> None:
    """Raises if the file is something else than its name says, and tells what."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    for magic, what in MAGIC.items():
        if start.startswith(magic):
            hint = f"Rename it to {path.stem}.hdf5" if "HDF5" in what else "Unpack it, or write it anew"
            raise DataError(f"{path}: is {what}, no {path.suffix} file. {hint}")


def _members(path: Path, archive: zipfile.ZipFile, also: Collection[str]) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        key = info.filename.removesuffix(".npy")
        if info.flag_bits & 1:
            raise DataError(f"{path}: is encrypted ('{key}'); it is not read. Write it without a password")
        other = members.get(key)
        if other is not None and (other.CRC, other.file_size) != (info.CRC, info.file_size):
            raise DataError(
                f"{path}: holds '{key}' twice, and the two differ. Write it anew with one of them"
            )
        if wanted(key) or key in also:
            members[key] = info
    return members


def _size(path: Path, archive: zipfile.ZipFile, key: str, info: zipfile.ZipInfo) -> int:
    """Bytes of a member's rows by its header; raises unless it holds as many as it declares."""
    with archive.open(info) as file:
        shape, dtype = shape_of(file)
        head = file.tell()
    if dtype.hasobject:
        raise DataError(
            f"{path}: '{key}' holds pickled Python objects; it is not read, since a pickle can run code.\n"
            "Write it anew with plain arrays"
        )
    declared = math.prod(shape) * dtype.itemsize
    if head + declared != info.file_size:
        raise DataError(
            f"{path}: '{key}' declares {' x '.join(map(str, shape)) or 'one'} numbers ({declared} bytes) and holds "
            f"{info.file_size - head} bytes: damaged or cut short. Copy or write it again"
        )
    return declared


def shape_of(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """What the header of an array declares."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if any(size < 0 for size in shape):
        raise ValueError(f"a shape of {shape}")
    return shape, dtype


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as file:
        return npy.read_array(file, allow_pickle=False)


def damaged(path: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
    return DataError(
        f"{path}: damaged, cut short or no {path.suffix} file ({reason}). Copy or write it again"
    )
