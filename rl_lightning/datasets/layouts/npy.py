"""A single .npy: named fields, columns by number, or a pickled value that only `rl data convert` looks at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.npz import DAMAGES, damaged, shape_of
from rl_lightning.datasets.formats.plain_pickle import check_numbers, loads
from rl_lightning.datasets.formats.raw import Array, Raw
from rl_lightning.datasets.layouts.column_map import rows_of_table
from rl_lightning.datasets.layouts.python_values import from_python
from rl_lightning.errors import DataError


def read_array(path: Path) -> Array:
    """The array of a file; objects are refused."""
    try:
        with path.open("rb") as file:
            shape, dtype = shape_of(file)
            if dtype.hasobject:
                raise DataError(
                    f"{path}: holds pickled Python objects; training reads none, since a pickle can run code.\n"
                    f"Convert it with: rl data convert {path} {path.with_suffix('.hdf5').name}"
                )
            declared = math.prod(shape) * dtype.itemsize
            check_budget(path, {path.name: declared})
            if file.tell() + declared != path.stat().st_size:
                raise DataError(
                    f"{path}: declares {declared} bytes and holds another number: damaged or cut short"
                )
            file.seek(0)
            return npy.read_array(file, allow_pickle=False)
    except (*DAMAGES, MemoryError) as error:
        raise damaged(path, error) from None


def read_npy(path: Path, chosen_columns: Mapping[str, list[str]] | None = None) -> Raw:
    """A table: the fields of a record, or the columns of a matrix by their numbers."""
    array = read_array(path)
    if array.dtype.names:
        table = {name: array[name] for name in array.dtype.names}
        return rows_of_table(str(path), table, f"an array of {len(table)} fields", chosen_columns)
    if array.ndim != 2:
        raise DataError(
            f"{path}: a single array of shape {array.shape}; a data set needs observations and actions: put "
            "observations.npy, actions.npy ... into a folder"
        )
    table = {str(column): array[:, column] for column in range(array.shape[1])}
    return rows_of_table(str(path), table, f"an array of {len(table)} columns", chosen_columns)


def holds_objects(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(shape_of(file)[1].hasobject)
    except DAMAGES as error:
        raise damaged(path, error) from None


def read_objects(path: Path) -> Raw:
    """What numpy.save pickled, by the reader that knows plain arrays and containers alone."""
    check_budget(path, {path.name: path.stat().st_size})
    with path.open("rb") as file:
        shape_of(file)
        value: Any = loads(str(path), file.read())
    check_numbers(path, value)
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        value = value.item() if value.ndim == 0 else value.tolist()
        check_numbers(path, value)
    return from_python(str(path), value)
