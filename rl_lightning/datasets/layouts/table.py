"""Tables: CSV with a line of names, and parquet (RLlib's among them)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.memory_budget import check_budget, check_text
from rl_lightning.datasets.formats.raw import Array, Raw
from rl_lightning.datasets.layouts.column_map import rows_of_table
from rl_lightning.datasets.layouts.rllib import unpacked_column
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command

PIECE = 8192  # rows that are read at a time
RLLIB = {"eps_id", "obs", "actions"}
PACKED = ("obs", "new_obs", "actions")  # of RLlib's columns, where they are text


def read_csv(path: Path, chosen_columns: Mapping[str, list[str]] | None = None) -> Raw:
    table = csv_columns(path)
    return rows_of_table(str(path), table, f"a CSV table of {len(table)} columns", chosen_columns)


def csv_columns(path: Path) -> dict[str, Array]:
    """Every column by its name, in the order of the file."""
    check_text(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(file, strict=True)
            names = next(rows, [])
            columns: list[list[str]] = [[] for _ in names]
            for row in rows:
                if len(row) != len(names):
                    raise DataError(
                        f"{path}: line {rows.line_num} has {len(row)} values, its first line {len(names)} names"
                    )
                for column, value in zip(columns, row, strict=True):
                    column.append(value)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: not CSV that can be read ({str(error)[:120]})") from None
    if len(set(names)) != len(names):
        raise DataError(f"{path}: two columns have the same name; its first line must name each once")
    return {name: _numbers(column) for name, column in zip(names, columns, strict=True)}


def _numbers(column: list[str]) -> Array:
    """Truths, whole numbers from 0, or numbers, where all values are; else text."""
    truths = {"true": True, "false": False}
    lowered = [value.strip().lower() for value in column]
    if lowered and all(value in truths for value in lowered):
        return np.array([truths[value] for value in lowered])
    for kind in (np.int64, np.float64):
        try:
            numbers = np.array(column).astype(kind)
        except (ValueError, OverflowError):
            continue
        if numbers.dtype.kind == "f" or not (numbers < 0).any():  # those below 0 number nothing
            return numbers
    return np.array(column)


def read_parquet(
    path: Path, chosen_columns: Mapping[str, list[str]] | None = None, unpack: bool = False
) -> Raw:
    """A table of one file, or of all in a folder.

    Args:
        path: The file or folder.
        chosen_columns: What the arrays are made of; null: their names tell.
        unpack: Also columns that RLlib packs, as it does with observations unless it is told otherwise.
    """
    files = _files(path)
    names = column_names(files[0])
    if names == ["item"]:
        raise DataError(
            f"{path}: holds whole episodes of RLlib, packed. Record them anew with output_write_episodes=False"
        )
    packed = packed_columns(path)
    if packed and not unpack:
        raise DataError(
            f"{path}: '{packed[0]}' is packed (a pickle can run code); training does not read it.\n"
            f"Convert it with: rl data convert {path} {path.with_suffix('.hdf5').name}"
        )
    table = parquet_columns(files)
    for name in packed:
        table[name] = unpacked_column(f"{path}: '{name}'", table[name].tolist())
    layout = (
        "an RLlib table of parquet" if set(names) >= RLLIB else f"a parquet table of {len(names)} columns"
    )
    layout += f" in {len(files)} files" if len(files) > 1 else ""
    return rows_of_table(str(path), table, layout, chosen_columns)


def packed_columns(path: Path) -> list[str]:
    """Columns of an RLlib table that hold each row's array as text; none in any other."""
    import pyarrow

    schema = _opened(_files(path)[0]).schema_arrow
    if not set(schema.names) >= RLLIB:
        return []
    text = (pyarrow.types.is_string, pyarrow.types.is_large_string)
    return [
        name
        for name in PACKED
        if name in schema.names and any(each(schema.field(name).type) for each in text)
    ]


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def column_names(path: Path) -> list[str]:
    return list(_opened(path).schema_arrow.names)


def parquet_columns(paths: Iterable[Path], names: Iterable[str] | None = None) -> dict[str, Array]:
    """Columns of one or more files of the same columns. Those whose cells are neither numbers nor text are left out.

    Args:
        paths: Read in this order.
        names: Those that are read; null: all.
    """
    wanted = None if names is None else set(names)
    parts: list[dict[str, Array]] = []
    sizes: dict[str, int] = {}
    for path in paths:
        file = _opened(path)
        known = [name for name in file.schema_arrow.names if wanted is None or name in wanted]
        read = _read(path, file, known, sizes)
        parts.append({name: _array(path, name, read.column(name)) for name in known})
    shared = [name for name in parts[0] if all(part.get(name) is not None for part in parts)]
    try:
        return {name: np.concatenate([part[name] for part in parts]) for name in shared}
    except ValueError:
        raise DataError(f"{path.parent}: its files differ in the shape of their columns") from None


def _read(path: Path, file: Any, names: list[str], sizes: dict[str, int]) -> Any:
    """Columns of a file, a piece at a time: a few bytes of it may stand for very many cells."""
    import pyarrow

    sizes[str(path)] = 8 * file.metadata.num_rows * len(names)
    check_budget(path.parent, sizes)
    pieces = []
    try:
        for piece in file.iter_batches(batch_size=PIECE, columns=names):
            pieces.append(piece)
            sizes[str(path)] = sum(each.nbytes for each in pieces)
            check_budget(path.parent, sizes)
        return pyarrow.Table.from_batches(pieces, file.schema_arrow.empty_table().select(names).schema)
    except DataError:
        raise
    except Exception as error:  # of another package, on files of unknown origin
        raise _damaged(path, error) from None


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f"{path}: parquet is read by pyarrow. Install it with: {pip_command('data')}"
        ) from None
    try:
        return pyarrow.parquet.ParquetFile(path)
    except Exception as error:  # of another package, on files of unknown origin
        raise _damaged(path, error) from None


def _array(path: Path, name: str, column: Any) -> Any:
    """Numbers or text [N], lists of equal length [N, K]; None for anything else."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
        return _whole(path, name, column).to_numpy()
    if pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return np.array(_whole(path, name, column).to_pylist())
    lists = pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind)
    if not lists and not pyarrow.types.is_fixed_size_list(kind):
        return None
    rows = len(column)
    if not rows:
        return np.zeros((0, 0))
    values = _whole(path, name, column).combine_chunks()
    flat = values.flatten()
    if not (pyarrow.types.is_integer(flat.type) or pyarrow.types.is_floating(flat.type)):
        return None
    if lists and len(set(pyarrow.compute.list_value_length(values).to_pylist())) > 1:
        raise DataError(f"{path}: rows of '{name}' differ in length; each step needs as many numbers")
    return _whole(path, name, flat).to_numpy(zero_copy_only=False).reshape(rows, -1)


def _whole(path: Path, name: str, column: Any) -> Any:
    if column.null_count:
        raise DataError(f"{path}: '{name}' is empty in {column.null_count} rows; fill them or leave them out")
    return column


def _damaged(path: Path, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
    return DataError(f"{path}: damaged, cut short or not parquet ({reason}). Copy or write it again")
