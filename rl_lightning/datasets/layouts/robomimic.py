"""robomimic's HDF5: a group per demonstration, observations by key, and masks that name some of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.hdf5 import check_size, members_of, opened, read_member
from rl_lightning.datasets.formats.raw import LAYOUT, Array, Raw
from rl_lightning.datasets.layouts.episodes import join_episodes
from rl_lightning.errors import DataError

ARRAYS = ("actions", "rewards", "dones")
MOST_DEMOS = 100_000  # that a mask may list
MOST_PER_STEP = 2  # dimensions of observations that are numbers; pictures have four


def is_robomimic(path: Path) -> bool:
    """Whether there is a group `data` whose groups hold actions."""
    with opened(path) as file:
        data = _group(file, path, "data")
        return any("actions" in demo for _, demo in _demos(data, path)) if data is not None else False


def read_robomimic(path: Path, keys: list[str] | None = None) -> Raw:
    """Demonstrations one after another, in order of their numbers; infos tell which masks list them.

    Args:
        path: The file.
        keys: Observations to be learned from, side by side; null: all that are numbers, in order of their names.
    """
    with opened(path) as file:
        data = _group(file, path, "data")
        assert data is not None, path
        masks, demos = _masks(file, path), _demos(data, path)
        keys, left_out = _keys(path, demos[0][1], keys)
        check_size(path, [member for _, demo in demos for member in _needed(demo, path, keys)])
        raw = sort_out(str(path), join_episodes(str(path), (_episode(path, *item, keys) for item in demos)))
        metadata = _about(data, keys, left_out, len(demos))
        lengths = [len(demo["actions"]) for _, demo in demos]
        infos = {
            f"mask_{name}": np.repeat([each in chosen for each, _ in demos], lengths)
            for name, chosen in masks.items()
        }
    return raw._replace(infos=raw.infos | infos, metadata=raw.metadata | metadata)


def _group(parent: Any, path: Path, name: str) -> h5py.Group | None:
    """A group that lies in this file itself."""
    link = parent.get(name, getlink=True)
    if link is None:
        return None
    if not isinstance(link, h5py.HardLink):
        raise DataError(f"{path}: '{name}' is a link to another place; it is not followed")
    member = parent[name]
    return member if isinstance(member, h5py.Group) else None


def _demos(data: h5py.Group, path: Path) -> list[tuple[str, h5py.Group]]:
    groups = [(name, _group(data, path, name)) for name in sorted(data, key=_natural)]
    return [(name, group) for name, group in groups if group is not None]


def _natural(name: Any) -> list[Any]:
    if not isinstance(name, str):
        raise ValueError("a name that is no text")
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _masks(file: h5py.File, path: Path) -> dict[str, set[str]]:
    members = members_of(_group(file, path, "mask"), path, "mask/")
    return {
        name: {each.decode() if isinstance(each, bytes) else str(each) for each in member[()]}
        for name, member in members.items()
        if member.ndim == 1 and len(member) <= MOST_DEMOS
    }


def _keys(path: Path, demo: h5py.Group, wanted: list[str] | None) -> tuple[list[str], list[str]]:
    members = members_of(_group(demo, path, "obs"), path, "obs/")
    if not members:
        raise DataError(
            f"{path}: its demonstrations have no 'obs'; robomimic's own script makes them from states"
        )
    for key in wanted or ():
        if key not in members:
            raise DataError(f"{path}: no observation '{key}' (it has {', '.join(members)})")
    numbers = [
        key for key, member in members.items() if member.ndim <= MOST_PER_STEP and member.dtype.kind in "biuf"
    ]
    if not numbers:
        raise DataError(f"{path}: its observations are pictures ({', '.join(members)}); flat ones are needed")
    chosen = numbers if wanted is None else list(wanted)
    return chosen, [key for key in members if key not in chosen]


def _needed(demo: h5py.Group, path: Path, keys: list[str]) -> Iterator[h5py.Dataset]:
    own = members_of(demo, path)
    yield from (own[name] for name in ARRAYS if name in own)
    for group in ("obs", "next_obs"):
        members = members_of(_group(demo, path, group), path)
        yield from (members[key] for key in keys if key in members)


def _episode(path: Path, name: str, demo: h5py.Group, keys: list[str]) -> dict[str, Array]:
    own = members_of(demo, path)
    episode = {key: read_member(own[key], path) for key in ARRAYS if key in own}
    for group, target in (("obs", "observations"), ("next_obs", "next_observations")):
        members = members_of(_group(demo, path, group), path)
        if group == "next_obs" and not members:
            continue
        lacking = [key for key in keys if key not in members]
        if lacking:
            raise DataError(f"{path}: data/{name}/{group} has no '{lacking[0]}', others have")
        single = next((key for key in keys if not members[key].shape), None)
        if single is not None:
            raise DataError(f"{path}: data/{name}/{group}/{single} is a single value, not one row per step")
        parts = [read_member(members[key], path) for key in keys]
        episode[target] = np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    said = demo.attrs.get("num_samples")
    steps = len(episode.get("actions", ()))
    if said is not None and int(said) != steps:
        raise DataError(f"{path}: data/{name} says {int(said)} steps and has {steps}: damaged or cut short")
    return episode


def _about(data: h5py.Group, keys: list[str], left_out: list[str], count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        LAYOUT: f"robomimic: {count} demonstrations, observations {', '.join(keys)}",
        "source": "robomimic",
    }
    if left_out:
        metadata[LAYOUT] += f"; without {', '.join(left_out)}"
    try:
        env = json.loads(data.attrs.get("env_args", "{}"))
        metadata["robomimic_env"] = str(env["env_name"])
    except (ValueError, TypeError, KeyError, RecursionError):
        metadata["robomimic_env"] = "unknown"
    return metadata
