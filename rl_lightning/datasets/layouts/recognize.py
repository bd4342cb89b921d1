"""Which layout a file or folder has, told by what it holds, and its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.datasets.data_files import CONVERTIBLE, READABLE
from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.hdf5 import read_hdf5
from rl_lightning.datasets.formats.memory_budget import check_text
from rl_lightning.datasets.formats.npz import read_npz
from rl_lightning.datasets.formats.plain_pickle import check_numbers, read_pickle
from rl_lightning.datasets.formats.raw import LAYOUT, Raw
from rl_lightning.datasets.formats.tensors import read_pt
from rl_lightning.datasets.layouts.python_values import from_python
from rl_lightning.errors import DataError


def read_file(path: Path) -> Raw:
    """What training reads. Nothing that could hold code is opened."""
    suffix = path.suffix.lower()
    if suffix in (".hdf5", ".h5"):
        raw = read_hdf5(path)
    elif suffix == ".npz":
        raw = sort_out(str(path), read_npz(path))
    elif suffix == ".pt":
        raw = sort_out(str(path), read_pt(path))
    elif suffix in CONVERTIBLE:
        what = "JSON is slow and loses types" if suffix.startswith(".json") else "a pickle can run code"
        raise DataError(
            f"{path}: training does not read it ({what}).\n"
            f"Convert it with: rl data convert {path} {path.with_suffix('.hdf5')}"
        )
    else:
        raise DataError(f"{path}: '{suffix}' is not a known format; {', '.join(READABLE)} are read")
    return _told(raw, "arrays with one row per step, as D4RL has them")


def read_any(path: Path) -> Raw:
    """Whatever can be converted: also what is slow, or must be looked at with care."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _told(from_python(str(path), _read_json(path)), "JSON")
    if suffix in (".pkl", ".pickle"):
        value = read_pickle(path)
        check_numbers(path, value)
        return _told(from_python(str(path), value), "a pickle")
    return read_file(path)


def _told(raw: Raw, layout: str) -> Raw:
    return raw._replace(metadata={LAYOUT: layout} | raw.metadata)


def _read_json(path: Path) -> Any:
    check_text(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON that can be read ({str(error)[:120]})") from None
