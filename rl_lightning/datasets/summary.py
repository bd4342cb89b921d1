"""Numbers about a data set that need only rewards and flags, and what lies in the data folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl_lightning.datasets.d4rl_files import D4RL_FILES
from rl_lightning.datasets.data_files import READABLE, d4rl_dir, data_dir
from rl_lightning.datasets.formats.hdf5 import peek_hdf5, read_columns
from rl_lightning.datasets.formats.minari_reader import local_datasets
from rl_lightning.datasets.formats.raw import VALUED, Array, Raw
from rl_lightning.datasets.references import short_name
from rl_lightning.datasets.rows.episode_rows import ends_of, timeouts_of
from rl_lightning.datasets.rows.goals import goes_on
from rl_lightning.errors import DataError


class EpisodeTable(NamedTuple):
    """One entry per episode."""

    returns: Array
    lengths: Array
    finished: Array  # bool; False where the recording broke off

    @property
    def mean_return(self) -> float:
        """Over finished episodes, or over all if none is."""
        chosen = self.returns[self.finished] if self.finished.any() else self.returns
        return float(chosen.mean())


def episode_table(raw: Raw) -> EpisodeTable:
    """Of arrays with rewards, terminals and perhaps timeouts."""
    terminated = np.asarray(raw.arrays["terminals"]).reshape(-1).astype(bool)
    raw = raw._replace(arrays={**raw.arrays, "terminals": terminated})
    truncated, _ = timeouts_of(raw)
    truncated = np.asarray(truncated).reshape(-1).astype(bool)
    last = np.flatnonzero(ends_of(raw, truncated))
    starts = np.concatenate([[0], last[:-1] + 1])
    rewards = np.asarray(raw.arrays["rewards"], np.float64).reshape(-1)
    returns = np.add.reduceat(rewards, starts)
    finished = terminated[last] | truncated[last]
    if goes_on(raw):  # an env would end at the first goal, and pay for it once
        returns, finished = np.minimum(returns, 1.0), truncated[last]
    return EpisodeTable(returns, last - starts + 1, finished)


class DataFolder(NamedTuple):
    """A folder of data and its contents, one dictionary a file."""

    folder: Path
    files: list[dict[str, Any]]


def data_folders() -> list[DataFolder]:
    """The data folder and D4RL's own."""
    own, theirs = data_dir(), d4rl_dir()
    folders = [DataFolder(own, [describe(path) for path in _files(own)])]
    if theirs.resolve() != own.resolve():
        folders.append(DataFolder(theirs, [describe(path) for path in _files(theirs)]))
    minari = local_datasets()
    if minari:
        empty: dict[str, Any] = {"rows": None, "episodes": None, "mean_return": None, "MB": None, "note": ""}
        files = [{"name": f"minari/{name}"} | empty | counts for name, counts in minari]
        folders.append(DataFolder(Path("Minari"), files))
    return folders


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    paths = [path for path in folder.rglob("*") if path.suffix.lower() in READABLE and path.is_file()]
    return sorted(path for path in paths if not path.name.startswith(".") and "policies" not in path.parts)


def dataset_name(path: Path) -> str:
    """What a user types for a file: its name where it has one, else its path."""
    if path.parent == data_dir() / "local":
        return f"local/{path.stem}"
    if path.parent == data_dir() / "ogbench":
        return f"ogbench/{path.stem}"
    for name, (_, file) in D4RL_FILES.items():
        if path.name == file:
            return f"d4rl/{name}"
    if path.parent in (data_dir() / "d4rl", d4rl_dir()):
        return f"d4rl/{short_name(path.name)}"
    return str(path)


def describe(path: Path) -> dict[str, Any]:
    """Name, rows, episodes, mean return and size of a file; a damaged one says so."""
    row: dict[str, Any] = {"name": dataset_name(path), "rows": None, "episodes": None, "mean_return": None}
    row |= {"MB": path.stat().st_size / 1e6, "note": ""}
    if path.suffix.lower() not in (".hdf5", ".h5"):
        return row | {"note": "not looked into"}
    try:
        shapes, metadata = peek_hdf5(path)
        row["rows"] = shapes["observations"][0][0] if shapes["observations"][0] else 0
        lacking = [key for key in VALUED if key not in shapes]
        if lacking:
            return row | {
                "episodes": metadata.get("episodes"),
                "note": f"no {' and no '.join(lacking)}",
            }
        if {"episodes", "mean_return"} <= metadata.keys():
            return row | {"episodes": metadata["episodes"], "mean_return": metadata["mean_return"]}
        columns = read_columns(path, ("rewards", "terminals", "timeouts"))
        table = episode_table(Raw(str(path), columns, {}, metadata))
        return row | {"episodes": len(table.returns), "mean_return": table.mean_return}
    except (DataError, ValueError, IndexError) as error:
        return row | {"note": str(error).splitlines()[0].removeprefix(f"{path}: ")[:60]}
