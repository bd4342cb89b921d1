"""Which layout a file or folder has, told by what it holds, and its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rl_lightning.datasets.data_files import CONVERTIBLE, READABLE
from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.hdf5 import read_hdf5
from rl_lightning.datasets.formats.memory_budget import check_text
from rl_lightning.datasets.formats.npz import names_of, read_npz
from rl_lightning.datasets.formats.plain_pickle import check_numbers, read_pickle
from rl_lightning.datasets.formats.raw import LAYOUT, Raw
from rl_lightning.datasets.formats.tensors import read_pt
from rl_lightning.datasets.layouts import lerobot, npy, ogbench, rllib, robomimic
from rl_lightning.datasets.layouts.films import is_films, read_films
from rl_lightning.datasets.layouts.folder import read_folder
from rl_lightning.datasets.layouts.python_values import from_python
from rl_lightning.datasets.layouts.table import read_csv, read_parquet
from rl_lightning.errors import DataError

Columns = Mapping[str, list[str]] | None
TABLES: dict[str, Callable[[Path, Columns], Raw]] = {
    ".parquet": read_parquet,
    ".csv": read_csv,
    ".npy": npy.read_npy,
}


def read_file(path: Path, columns: Columns = None) -> Raw:
    """What training reads. Nothing that could hold code is opened.

    Args:
        path: A file, or a folder with a data set's files.
        columns: Which columns or observations the arrays are made of; null: their names tell.
    """
    if path.is_dir():
        return _read_folder(path, columns)
    suffix = path.suffix.lower()
    if suffix in CONVERTIBLE:
        what = "JSON is slow and loses types" if suffix.startswith(".json") else "a pickle can run code"
        raise DataError(
            f"{path}: training does not read it ({what}).\n"
            f"Convert it with: rl data convert {path} {path.with_suffix('.hdf5').name}"
        )
    if suffix not in READABLE:
        raise DataError(f"{path}: '{suffix}' is not a known format; {', '.join(READABLE)} are read")
    if suffix in TABLES:
        return TABLES[suffix](path, columns)
    if suffix in (".hdf5", ".h5") and robomimic.is_robomimic(path):
        return robomimic.read_robomimic(path, _observed(path, columns))
    if columns is not None:
        raise DataError(f"{path}: holds arrays, not columns; leave --columns out")
    if suffix == ".npz":
        compact = ogbench.is_compact(names_of(path))
        return ogbench.read_compact(path) if compact else _flat(sort_out(str(path), read_npz(path)))
    return _flat(sort_out(str(path), read_pt(path)) if suffix == ".pt" else read_hdf5(path))


def _read_folder(folder: Path, columns: Columns) -> Raw:
    if lerobot.is_lerobot(folder):
        return lerobot.read_lerobot(folder, _observed(folder, columns))
    if is_films(folder):
        if columns is not None:
            raise DataError(f"{folder}: holds films, whose tables name their columns; leave --columns out")
        return read_films(folder)
    if any(folder.glob("*.parquet")):
        return read_parquet(folder, columns)
    if any(folder.glob("*.json")):
        raise DataError(
            f"{folder}: training does not read JSON (it is slow and loses types).\n"
            f"Convert it with: rl data convert {folder} {folder.with_suffix('.hdf5').name}"
        )
    if columns is not None:
        raise DataError(f"{folder}: holds arrays, not columns; leave --columns out")
    return read_folder(folder)


def _observed(path: Path, columns: Columns) -> list[str] | None:
    """Which observations are taken of a layout whose other arrays are known."""
    others = set(columns or ()) - {"observations"}
    if others:
        raise DataError(
            f"{path}: of this layout --columns names observations alone; leave {sorted(others)[0]} out"
        )
    return None if columns is None else columns["observations"]


def is_flat(path: Path) -> bool:
    """Whether it is HDF5 with arrays that can be looked at without reading rows."""
    return path.suffix.lower() in (".hdf5", ".h5") and not robomimic.is_robomimic(path)


def read_any(path: Path, columns: Columns = None) -> Raw:
    """Whatever can be converted: also what is slow, or must be looked at with care."""
    suffix = path.suffix.lower()
    if path.is_dir() and not lerobot.is_lerobot(path) and rllib.is_rllib(path):
        return rllib.read_batches(path)
    if suffix in (".json", ".jsonl") and path.is_file():
        check_text(path)
        return rllib.read_batches(path) if rllib.is_rllib(path) else from_python(str(path), _read_json(path))
    if suffix in (".pkl", ".pickle"):
        value = read_pickle(path)
        check_numbers(path, value)
        return from_python(str(path), value)
    if suffix == ".npy" and path.is_file() and npy.holds_objects(path):
        return npy.read_objects(path)
    if suffix == ".parquet" or (
        path.is_dir() and not lerobot.is_lerobot(path) and not is_films(path) and any(path.glob("*.parquet"))
    ):
        return read_parquet(path, columns, unpack=True)
    return read_file(path, columns)


def _flat(raw: Raw) -> Raw:
    return raw._replace(metadata={LAYOUT: "arrays with one row per step, as D4RL has them"} | raw.metadata)


def _read_json(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() == ".jsonl":
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON that can be read ({str(error)[:120]})") from None
