"""Folders of films: an mp4 for each episode, and beside it a table of the same name with what was done and paid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.datasets.formats.arrays import sort_out
from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.pictures import Frames
from rl_lightning.datasets.formats.raw import LAYOUT, Array, Raw
from rl_lightning.datasets.layouts.column_map import map_columns
from rl_lightning.datasets.layouts.episodes import join_episodes
from rl_lightning.datasets.layouts.table import csv_columns, parquet_columns
from rl_lightning.errors import DataError

TABLES = (".csv", ".parquet")


def films_of(folder: Path) -> list[Path]:
    """In order of their names."""
    return sorted(path for path in folder.glob("*.mp4") if not path.name.startswith("."))


def is_films(folder: Path) -> bool:
    """Whether a film lies there with a table beside it."""
    return any(_table(film) is not None for film in films_of(folder))


def read_films(folder: Path) -> Raw:
    """All episodes. A film has a frame for each row of its table, or one more: what was seen at the end."""
    films, sizes = films_of(folder), {}
    for film in films:
        sizes[film.name] = frame_bytes(film) * _rows(film)
    check_budget(folder, sizes)
    raw = sort_out(str(folder), join_episodes(str(folder), (_episode(film) for film in films)))
    return raw._replace(metadata=raw.metadata | {LAYOUT: f"a folder of {len(films)} films"})


def _table(film: Path) -> Path | None:
    there = [film.with_suffix(suffix) for suffix in TABLES if film.with_suffix(suffix).is_file()]
    return there[0] if there else None


def _columns(film: Path) -> dict[str, Array]:
    table = _table(film)
    if table is None:
        raise DataError(f"{film}: no {film.stem}.csv or .parquet beside it, which says what was done")
    return csv_columns(table) if table.suffix == ".csv" else parquet_columns([table])


def _rows(film: Path) -> int:
    return max((len(column) for column in _columns(film).values()), default=0) + 1


def _episode(film: Path) -> dict[str, Any]:
    table = _columns(film)
    columns = {
        name: keys
        for name, keys in map_columns(str(film), table).columns.items()
        if "observations" not in name
    }
    if "actions" not in columns:
        raise DataError(f"{_table(film)}: no column 'action' (it has {', '.join(list(table)[:12])})")
    members: dict[str, Any] = {
        name: table[keys[0]] if len(keys) == 1 else np.stack([table[key] for key in keys], 1)
        for name, keys in columns.items()
    }
    frames, steps = read_frames([film]), len(members["actions"])
    if len(frames) not in (steps, steps + 1):
        raise DataError(
            f"{film}: has {len(frames)} frames, and {_table(film)} {steps} rows; a film has a frame for each row, or "
            "one more"
        )
    return {"observations": frames, **members}


def read_frames(films: Iterable[Path]) -> Frames:
    """All frames of films of one size, one after the other.  -> [T, H, W, 3]"""
    parts = [np.stack(list(_decoded(film))) for film in films]
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) != 1:
        raise DataError(f"films of different sizes: {', '.join(sorted(map(str, shapes)))}")
    return np.concatenate(parts)


def frame_bytes(film: Path) -> int:
    """Of one frame, by the film's head."""
    with _opened(film) as reader:
        width, height = reader.get_meta_data()["size"]
    return int(width) * int(height) * 3


def _decoded(film: Path) -> Iterator[Frames]:
    count = 0
    try:
        with _opened(film) as reader:
            for frame in reader:
                count += 1
                yield np.asarray(frame, np.uint8)
    except (OSError, RuntimeError, ValueError) as error:
        raise _damaged(film, error) from None
    if not count:
        raise DataError(f"{film}: holds no frame. Copy or fetch it again")


def _opened(film: Path) -> Any:
    import imageio.v2 as imageio

    try:
        return imageio.get_reader(film, format="FFMPEG")
    except (OSError, RuntimeError, ValueError, IndexError) as error:
        raise _damaged(film, error) from None


def _damaged(film: Path, error: Exception) -> DataError:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
    return DataError(f"{film}: not a film that can be read ({reason}). Copy or fetch it again")
