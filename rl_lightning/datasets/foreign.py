"""Formats that are converted and never trained from: JSON, and pickles of plain arrays.

A pickle can run anything when it is loaded. This reader knows arrays, numbers, texts and containers by name and
refuses every other name before it is looked up.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core import multiarray, numeric  # type: ignore[import-not-found,unused-ignore]

from rl_lightning.datasets.formats import read_file, sort_out
from rl_lightning.datasets.raw import ALIASES, NEEDED, OPTIONAL, Raw, canonical
from rl_lightning.errors import DataError


def read_any(path: Path) -> Raw:
    """Whatever can be converted."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        return from_python(str(path), _read_json(path))
    if suffix in (".pkl", ".pickle"):
        return from_python(str(path), read_pickle(path))
    return read_file(path)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON that can be read ({str(error)[:120]})") from None


class _Latin1:
    """What old pickles call to turn text into bytes, for that one encoding."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str = "latin1") -> bytes:
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError("bytes in an odd encoding")
        return text.encode("latin1")


_CORES = ("numpy.core", "numpy._core")
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _Latin1(),
    ("builtins", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("collections", "OrderedDict"): dict,
    **{(f"{core}.multiarray", name): getattr(multiarray, name)
       for core in _CORES for name in ("_reconstruct", "scalar")},
    **{(f"{core}.numeric", name): getattr(numeric, name) for core in _CORES for name in ("_frombuffer",)},
}  # fmt: skip


class PlainUnpickler(pickle.Unpickler):
    """Loads arrays, numbers, texts and containers; any other name in the pickle is refused unseen."""

    def find_class(self, module: str, name: str) -> Any:
        found = ADMITTED.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return found


def read_pickle(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            return PlainUnpickler(file, encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{path}: names '{str(error)[:80]}', which is more than plain arrays; it was not run and is not read.\n"
            "Save its arrays with numpy.savez instead, and convert that"
        ) from None
    except Exception as error:  # a damaged or hostile pickle can raise nearly anything
        raise DataError(f"{path}: not a pickle of plain arrays ({type(error).__name__})") from None


def from_python(where: str, value: Any) -> Raw:
    """A dictionary of arrays, a list of steps, or a list of episodes."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        whole = np.ndim(_get(value[0], "rewards", where)) > 0
        value = _from_episodes(where, value) if whole else _from_steps(where, value)
    if not isinstance(value, dict):
        raise DataError(
            f"{where}: holds a {type(value).__name__}; a dictionary of arrays, a list of steps or a list of episodes "
            "is needed"
        )
    return sort_out(where, {str(key): _array(where, str(key), item) for key, item in value.items()})


def _array(where: str, key: str, value: Any) -> Any:
    if isinstance(value, dict) or canonical(key) is None:
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"{where}: rows of '{key}' differ in length; each step needs as many numbers"
        ) from None


def _get(row: dict[str, Any], key: str, where: str) -> Any:
    for name in (key, *(alias for alias, target in ALIASES.items() if target == key)):
        if name in row:
            return row[name]
    raise DataError(f"{where}: a row has no '{key}' (it has {', '.join(map(str, list(row)[:8]))})")


def _from_steps(where: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = [key for key in (*NEEDED, *OPTIONAL) if key in NEEDED or _has(rows[0], key)]
    return {key: [_get(row, key, where) for row in rows] for key in keys}


def _from_episodes(where: str, episodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Joined back to back; the end of each is a cut unless it is a terminal."""
    keys = [key for key in (*NEEDED, *OPTIONAL) if key in NEEDED or _has(episodes[0], key)]
    joined: dict[str, Any] = {}
    for key in keys:
        parts = [_array(where, key, _get(episode, key, where)) for episode in episodes]
        try:
            joined[key] = np.concatenate(parts)
        except ValueError:
            raise DataError(f"{where}: episodes differ in the shape of '{key}'") from None
    last = np.cumsum([len(_get(episode, "rewards", where)) for episode in episodes]) - 1
    ended = np.asarray(joined["terminals"]).astype(bool).reshape(-1)
    cuts = np.asarray(joined.get("timeouts", np.zeros(len(ended)))).astype(bool).reshape(-1)
    cuts[last] |= ~ended[last]
    return joined | {"timeouts": cuts}


def _has(row: dict[str, Any], key: str) -> bool:
    return any(canonical(str(name)) == key for name in row)
