"""A data set by its name: found, read, checked and made into rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rl_lightning.datasets.data_files import Source, locate
from rl_lightning.datasets.dataset import Dataset
from rl_lightning.datasets.formats.hdf5 import peek_hdf5
from rl_lightning.datasets.formats.minari_reader import (
    minari_digest,
    minari_folder,
    read_metadata,
    read_minari,
)
from rl_lightning.datasets.formats.pictures import PICTURE, is_picture, picture_rows
from rl_lightning.datasets.formats.raw import CLIPPED, LAYOUT, PARTS, Raw, check_arrays, check_finite
from rl_lightning.datasets.formats.run_replay import read_run_replay, replay_digest, replay_header
from rl_lightning.datasets.layouts import ogbench
from rl_lightning.datasets.layouts.folder import files_of
from rl_lightning.datasets.layouts.recognize import is_flat, read_any, read_file
from rl_lightning.datasets.references import Reference, d4rl_env, d4rl_reference, local_reference
from rl_lightning.datasets.rows.action_kinds import bounds_of, settle_actions, sizes_of
from rl_lightning.datasets.rows.episode_rows import RECORDED, EpisodeRows, split_episodes
from rl_lightning.datasets.rows.outliers import check_outliers
from rl_lightning.errors import DataError
from rl_lightning.observations import ObsLayout
from rl_lightning.types import EnvSpec


def load_dataset(name: str) -> Dataset:
    """Reads a data set.

    Args:
        name: `d4rl/...`, `minari/...`, `local/...`, or the path of a file or folder.
    """
    return load_raw(name)[1]


def load_raw(name: str) -> tuple[Raw, Dataset]:
    """The same, and the file's rows as they are: those that lead nowhere are part of an episode's return."""
    source = locate(name)
    with ThreadPoolExecutor(1) as aside:  # hashing leaves the interpreter to the reader
        digest = aside.submit(sha256_of, source)
        raw = checked(source, read_source(source))
        clipped = source.kind == "d4rl" or CLIPPED in raw.metadata
        return checked_rows(raw, name, clipped, reference_of(source, raw.metadata), digest.result)


def checked_rows(
    raw: Raw, name: str, clipped: bool, reference: Reference | None, digest: Callable[[], str]
) -> tuple[Raw, Dataset]:
    """Arrays whose shapes are settled, looked through and made into rows."""
    check_finite(raw)
    check_outliers(raw)
    raw = settle_actions(raw, clipped=clipped)
    rows = split_episodes(raw)
    about = raw.metadata | {f"read/{key}": note for key, note in rows.notes.items()}
    *tensors, next_known = (torch.from_numpy(array) for array in rows[:8])
    known = (about, reference, digest(), recording_of(raw, rows))
    return raw, Dataset._make((name, spec_of(raw), *tensors, *known, next_known))


def recording_of(raw: Raw, rows: EpisodeRows) -> torch.Tensor:
    """Which rows were recorded in one episode: they are held out together, or not at all."""
    known = raw.infos.get(RECORDED)
    if known is not None and rows.kept is not None and len(known) == len(raw.arrays["rewards"]):
        known = known[rows.kept]
    if known is None or known.shape != rows.episode.shape or known.dtype.kind not in "iu":
        return torch.from_numpy(rows.episode)
    return torch.from_numpy(known.astype(np.int64))


def peekable(name: str) -> bool:
    """Whether shapes and metadata can be had without reading rows."""
    source = locate(name)
    return source.kind == "replay" or (source.kind != "minari" and is_flat(source.path))


def read_header(name: str) -> tuple[EnvSpec, dict[str, Any]]:
    """Shapes and metadata, without reading rows where the format allows it."""
    source = locate(name)
    if not peekable(name):
        raw = checked(source, read_source(source))
        return spec_of(raw), raw.metadata | {"rows": len(raw.arrays["rewards"])}
    if source.kind == "replay":
        return replay_header(source.path)
    shapes, metadata = peek_hdf5(source.path)
    metadata = described(source, metadata)
    (rows, *obs), kind = shapes["observations"] if shapes["observations"][0] else ((0,), None)
    if not rows:
        raise DataError(
            f"{source.path}: 'observations' has no rows; the file is empty. Record or fetch it again"
        )
    shape, dtype = shapes["actions"]
    if dtype.kind != "f" and "action_sizes" not in metadata:
        raw = checked(source, read_source(source))
        return spec_of(raw), raw.metadata | {"rows": rows}
    width = shape[1] if len(shape) > 1 else 1
    stand_in = (
        np.zeros((1, width), np.float32)
        if dtype.kind == "f"
        else np.zeros(1 if width == 1 else (1, width), int)
    )
    seen = np.zeros((1, *(obs or [1])), np.float32 if kind is None or kind != np.uint8 else np.uint8)
    if is_picture(seen):
        seen, metadata[PICTURE] = picture_rows(seen)
    arrays = {"observations": seen, "actions": stand_in}
    return spec_of(Raw(str(source.path), arrays, {}, metadata)), metadata | {"rows": rows}


def read_source(source: Source, convertible: bool = False) -> Raw:
    """The arrays of a source; `convertible` ones, too, which training does not read."""
    if source.kind == "minari":
        return read_minari(str(source.path))
    if source.kind == "ogbench":
        return ogbench.by_name(source.name, source.path)
    if source.kind == "replay":
        raw = read_run_replay(source.path)
        return raw._replace(metadata=raw.metadata | {LAYOUT: raw.metadata["replay"]})
    return read_any(source.path) if convertible else read_file(source.path)


def checked(source: Source, raw: Raw) -> Raw:
    raw = check_arrays(raw)
    return raw._replace(metadata=described(source, raw.metadata))


def described(source: Source, metadata: dict[str, Any]) -> dict[str, Any]:
    """The file's own metadata; of D4RL's files also what their name says."""
    if source.kind == "d4rl":
        return {"source": "D4RL"} | d4rl_env(source.name) | metadata
    if source.kind == "minari" and "env_id" not in metadata:
        return read_metadata(minari_folder(str(source.path))) | metadata
    return metadata


def spec_of(raw: Raw) -> EnvSpec:
    actions, about = raw.arrays["actions"], raw.metadata
    steps = about.get("max_episode_steps")
    spec = EnvSpec(
        env_id=str(about.get("env_id", "")),
        obs_shape=tuple(raw.arrays["observations"].shape[1:]),
        action_shape=tuple(actions.shape[1:]),
        max_episode_steps=steps if isinstance(steps, int) and steps > 0 else None,
    )
    if PARTS in about:
        spec = spec._replace(obs_dtype="uint8", obs_parts=parts_of(raw))
    if actions.dtype.kind == "f":
        low, high = bounds_of(raw, actions.shape[1])
        return spec._replace(action_low=low, action_high=high)
    kind = "discrete" if actions.ndim == 1 else "multi_discrete"
    return spec._replace(action_kind=kind, action_sizes=sizes_of(raw))


def parts_of(raw: Raw) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What lies side by side in each row of bytes, by the file's own word, which must fit its rows."""
    width = raw.arrays["observations"].shape[1]
    try:
        parts = tuple(
            (str(name), str(kind), tuple(map(int, shape))) for name, kind, shape in raw.metadata[PARTS]
        )
        kinds = {"vector": 1, "discrete": 1, "picture": 3}
        fits = all(len(shape) == kinds[kind] and min(shape) > 0 for _, kind, shape in parts)
        if fits and ObsLayout.of(parts).has_pictures and ObsLayout.of(parts).width == width:
            return parts
    except (KeyError, TypeError, ValueError):
        pass
    raise DataError(
        f"{raw.where}: its metadata's {PARTS} do not fit rows of {width} bytes. Record the data again"
    )


def reference_of(source: Source, metadata: dict[str, Any]) -> Reference | None:
    return d4rl_reference(source.name) if source.kind == "d4rl" else local_reference(metadata)


def sha256_of(source: Source) -> str:
    if source.kind == "minari":
        return minari_digest(str(source.path))
    if source.kind == "replay":
        return replay_digest(source.path)
    return folder_digest(source.path) if source.path.is_dir() else file_digest(source.path)


def folder_digest(folder: Path) -> str:
    """Of all files below it, in order of their names."""
    digest = hashlib.sha256()
    for path in files_of(folder):
        digest.update(str(path.relative_to(folder).as_posix()).encode() + bytes.fromhex(file_digest(path)))
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
