"""Minari's data sets, by way of its own package and from its local storage only."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rl_lightning.datasets.formats.hdf5 import opened
from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.raw import Array, Raw
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command


def minari_folder(dataset_id: str) -> Path:
    """Where a data set lies; raises if it does not, or if Minari is missing."""
    try:
        from minari.storage.datasets_root_dir import get_dataset_path
    except ImportError:
        raise DataError(
            f"minari/{dataset_id}: Minari is not installed. Install it with: {pip_command('minari')}"
        ) from None
    folder = Path(get_dataset_path(dataset_id)) / "data"
    if not (folder / "metadata.json").is_file():
        raise DataError(
            f"minari/{dataset_id}: not in {folder.parent}. Nothing is downloaded unasked; fetch it with:\n"
            f"rl data get minari/{dataset_id}"
        )
    return folder


def get_minari(dataset_id: str) -> str:
    """Fetches a data set by Minari's own client; where it lies, as text."""
    try:
        import minari
    except ImportError:
        raise DataError(
            f"minari/{dataset_id}: Minari is not installed. Install it with: {pip_command('minari')}"
        ) from None
    try:
        minari.download_dataset(dataset_id)
    except Exception as error:  # of another package, from a place of unknown health
        reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
        raise DataError(f"minari/{dataset_id}: Minari could not fetch it ({reason})") from None
    return f"{minari_folder(dataset_id).parent}: fetched"


def local_datasets() -> list[tuple[str, dict[str, Any]]]:
    """Ids of what lies in Minari's storage, and how much that is; Minari itself is not asked."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or "~/.minari/datasets").expanduser()
    folders = sorted(path.parent.parent for path in root.glob("**/data/metadata.json"))
    return [(folder.relative_to(root).as_posix(), _counts(folder / "data")) for folder in folders]


def _counts(folder: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((folder / "metadata.json").read_text())
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return {
            "rows": metadata.get("total_steps"),
            "episodes": metadata.get("total_episodes"),
            "MB": size / 1e6,
        }
    except (OSError, ValueError, AttributeError) as error:
        return {"note": str(error)[:60]}


def read_metadata(folder: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((folder / "metadata.json").read_text())
        env = json.loads(metadata.get("env_spec") or "{}")
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(
            f"{folder / 'metadata.json'}: cannot be read ({error}). Fetch the data again"
        ) from None
    return described_by(metadata, env)


def described_by(metadata: Mapping[str, Any], env: dict[str, Any]) -> dict[str, Any]:
    """What we keep of Minari's metadata and of its env's spec."""
    about = {
        "source": "Minari",
        "env_id": env.get("id", ""),
        "max_episode_steps": env.get("max_episode_steps"),
        "ref_min": metadata.get("ref_min_score"),
        "ref_max": metadata.get("ref_max_score"),
        "ref_kind": "Minari",
        "algorithm": metadata.get("algorithm_name"),
        "minari_version": metadata.get("minari_version"),
    }
    return {key: value for key, value in about.items() if value is not None}


def _opened(dataset_id: str, folder: Path) -> Any:
    from minari.dataset.minari_storage import MinariStorage

    metadata = json.loads((folder / "metadata.json").read_text())
    if not {"observation_space", "action_space"} <= metadata.keys():
        raise DataError(
            f"minari/{dataset_id}: its metadata has no spaces; fetch it again with a newer Minari"
        )
    try:
        return MinariStorage.read(folder)
    except Exception as error:  # of another package, on files of unknown origin
        raise _damaged(dataset_id, error) from None


def read_minari(dataset_id: str) -> Raw:
    folder = minari_folder(dataset_id)
    metadata = read_metadata(folder)
    check_budget(f"minari/{dataset_id}", {path.name: _unpacked(path) for path in folder.iterdir()})
    storage = _opened(dataset_id, folder)
    where = f"minari/{dataset_id}"
    try:
        arrays = arrays_of(storage.get_episodes(range(storage.total_episodes)), where)
    except DataError:
        raise
    except Exception as error:  # of another package, on files of unknown origin
        raise _damaged(dataset_id, error) from None
    arrays["actions"], bounds = rescale(arrays["actions"], storage.action_space, where)
    return Raw(where, arrays, {}, metadata | bounds)


def arrays_of(episodes: Iterable[Mapping[str, Any]], where: str) -> dict[str, Array]:
    """Minari's episodes, each with one observation more than steps, as rows of steps."""
    parts: dict[str, list[Array]] = {key: [] for key in (
        "observations", "actions", "rewards", "next_observations", "terminals", "timeouts")}  # fmt: skip
    for episode in episodes:
        rewards = np.asarray(episode["rewards"])
        obs = flatten(episode["observations"], len(rewards) + 1)
        parts["observations"].append(obs[:-1])
        parts["next_observations"].append(obs[1:])
        parts["actions"].append(flatten(episode["actions"], len(rewards)))
        parts["rewards"].append(rewards)
        parts["terminals"].append(np.asarray(episode["terminations"], bool))
        cut = np.asarray(episode["truncations"], bool).copy()
        if len(cut):
            cut[-1] |= not parts["terminals"][-1][-1]
        parts["timeouts"].append(cut)
    if not parts["rewards"]:
        raise DataError(f"{where}: has no episodes. Fetch it again")
    return {key: np.concatenate(arrays) for key, arrays in parts.items()}


def _unpacked(path: Path) -> int:
    """Bytes that a file of the storage takes once it is read; of an HDF5 file by what its arrays declare."""
    if path.suffix != ".hdf5":
        return sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
    sizes = []

    def add(name: str, member: Any) -> None:
        sizes.append(int(member.nbytes) if isinstance(member, h5py.Dataset) else 0)

    with opened(path) as file:
        file.visititems(add)
    return sum(sizes)


def rescale(actions: Array, space: Any, where: str) -> tuple[Array, dict[str, Any]]:
    """Actions of finite bounds in [-1, 1], as our envs take them; discrete ones counted from 0."""
    start = getattr(space, "start", None)
    if hasattr(space, "n"):
        return actions - int(start or 0), {"action_sizes": [int(space.n)]}
    if hasattr(space, "nvec"):
        return actions, {"action_sizes": [int(n) for n in space.nvec.reshape(-1)]}
    if not hasattr(space, "low"):
        raise DataError(f"{where}: actions of {type(space).__name__} are not supported")
    low, high = (np.asarray(each, np.float64).reshape(-1) for each in (space.low, space.high))
    bounds = {"action_low": low.tolist(), "action_high": high.tolist()}
    if not (np.isfinite(low) & np.isfinite(high)).all() or ((low == -1) & (high == 1)).all():
        return actions, bounds
    return ((actions - low) / (high - low) * 2 - 1).clip(-1, 1).astype(np.float32), bounds


def flatten(value: Any, length: int) -> Array:
    """One row of numbers per step, keys of a dictionary in sorted order: as our envs flatten observations."""
    if isinstance(value, dict):
        return np.concatenate([flatten(value[key], length) for key in sorted(value)], axis=1)
    if isinstance(value, tuple):
        return np.concatenate([flatten(item, length) for item in value], axis=1)
    array = np.asarray(value)
    return array.reshape(length, -1) if array.dtype.kind == "f" or array.ndim > 1 else array


def _damaged(dataset_id: str, error: Exception) -> DataError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:140]
    return DataError(
        f"minari/{dataset_id}: cannot be read ({type(error).__name__}: {reason}). Fetch it again"
    )


def minari_digest(dataset_id: str) -> str:
    """Of all of its files, in order of their names."""
    digest = hashlib.sha256()
    for path in sorted(minari_folder(dataset_id).rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
