"""Formats that are converted and never trained from: JSON, and pickles of plain arrays."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.arrays import read_file, sort_out
from rl_lightning.datasets.formats.memory_budget import check_text
from rl_lightning.datasets.formats.plain_pickle import check_numbers, read_pickle
from rl_lightning.datasets.formats.raw import DONES, NEEDED, OPTIONAL, Raw, candidates, the_one, wanted
from rl_lightning.errors import DataError


def read_any(path: Path) -> Raw:
    """Whatever can be converted."""
    suffix = path.suffix.lower()
    if suffix == ".json":
        return from_python(str(path), _read_json(path))
    if suffix in (".pkl", ".pickle"):
        value = read_pickle(path)
        check_numbers(path, value)
        return from_python(str(path), value)
    return read_file(path)


def _read_json(path: Path) -> Any:
    check_text(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON that can be read ({str(error)[:120]})") from None


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
    if isinstance(value, dict) or key.startswith("metadata/") or not wanted(key):
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"{where}: rows of '{key}' differ in length; each step needs as many numbers"
        ) from None


_fitting = lru_cache(64)(candidates)  # rows have the same keys


def _get(row: dict[str, Any], key: str, where: str) -> Any:
    fitting = _fitting(tuple(map(str, row))).get("terminals" if key in DONES else key)
    if fitting:
        return the_one(where, key, fitting, lambda name: row[name])
    raise DataError(f"{where}: a row has no '{key}' (it has {', '.join(map(str, list(row)[:8]))})")


def _from_steps(where: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    keys = _keys(rows[0])
    return {key: [_get(row, key, where) for row in rows] for key in keys}


def _from_episodes(where: str, episodes: list[dict[str, Any]]) -> dict[str, Any]:
    """Joined back to back; the end of each is a cut unless it is a terminal."""
    keys = _keys(episodes[0])
    joined: dict[str, Any] = {}
    for key in keys:
        parts = [_array(where, key, _get(episode, key, where)) for episode in episodes]
        try:
            joined[key] = np.concatenate(parts)
        except ValueError:
            raise DataError(f"{where}: episodes differ in the shape of '{key}'") from None
    last = np.cumsum([len(_get(episode, "rewards", where)) for episode in episodes]) - 1
    ended = np.asarray(joined[keys[NEEDED.index("terminals")]]).astype(bool).reshape(-1)
    cuts = np.asarray(joined.get("timeouts", np.zeros(len(ended)))).astype(bool).reshape(-1)
    cuts[last] |= ~ended[last]
    return joined | {"timeouts": cuts}


def _keys(row: dict[str, Any]) -> list[str]:
    """The arrays to make of rows like this one; dones stay dones, so that the reader tells."""
    have = _fitting(tuple(map(str, row)))
    named = {"terminals": DONES[0]} if have.get("terminals", [""])[0] in DONES else {}
    return [named.get(key, key) for key in NEEDED] + [key for key in OPTIONAL if key in have]
