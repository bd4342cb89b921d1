"""Folders: an .npz for each episode, or an .npy for each array."""

from __future__ import annotations

from pathlib import Path

from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.npz import names_of, read_npz
from rl_lightning.datasets.formats.raw import LAYOUT, Raw
from rl_lightning.datasets.layouts.episodes import join_episodes
from rl_lightning.datasets.layouts.npy import read_array
from rl_lightning.errors import DataError


def files_of(folder: Path) -> list[Path]:
    """All files that a data set in a folder is made of, but for LeRobot's videos, of which there are many."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and (path.parent == folder or path.suffix.lower() != ".mp4")
    )


def read_folder(folder: Path) -> Raw:
    episodes, arrays = _files(folder, "npz"), _files(folder, "npy")
    if episodes and arrays:
        raise DataError(f"{folder}: holds .npz and .npy; a folder holds episodes (.npz) or arrays (.npy)")
    if arrays:
        members = {path.stem: read_array(path) for path in arrays}
        raw = sort_out(str(folder), members)
        return raw._replace(metadata=raw.metadata | {LAYOUT: f"a folder of {len(arrays)} arrays"})
    check_budget(folder, {path.name: path.stat().st_size for path in episodes})
    if "is_first" in names_of(episodes[0]):
        raise DataError(
            f"{folder}: its episodes have 'is_first', as Dreamer's do, whose versions pair actions and observations in "
            "two ways; it is not read.\nWrite obs, action, reward, terminated with one row per step"
        )
    joined = join_episodes(
        str(folder), ({k: v for k, v in read_npz(path).items() if v is not None} for path in episodes)
    )
    raw = sort_out(str(folder), joined)
    return raw._replace(metadata=raw.metadata | {LAYOUT: f"a folder of {len(episodes)} episodes"})


def _files(folder: Path, suffix: str) -> list[Path]:
    return sorted(path for path in folder.glob(f"*.{suffix}") if not path.name.startswith("."))
