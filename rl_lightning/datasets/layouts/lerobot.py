"""LeRobot's folders, v3 and before: tables of parquet beside meta/info.json, and videos of one camera, if asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.pictures import Frames
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.layouts.column_map import rows_of_table
from rl_lightning.datasets.layouts.films import frame_bytes, read_frames
from rl_lightning.datasets.layouts.table import column_names, parquet_columns
from rl_lightning.errors import DataError

INFO = Path("meta") / "info.json"
EPISODE, ORDER = "episode_index", "frame_index"
OUTCOMES = {
    "rewards": "next.reward",
    "dones": "next.done",
    "terminals": "next.terminated",
    "timeouts": "next.truncated",
}
PICTURES = ("video", "image")


def is_lerobot(folder: Path) -> bool:
    return (folder / INFO).is_file()


def read_lerobot(folder: Path, keys: list[str] | None = None) -> Raw:
    """Frames of all episodes.

    Args:
        folder: That with meta/ and data/.
        keys: Features that are observed, side by side, or one camera's video; null: all numbers below `observation.`,
            in order of their names, or, where there are none, the only video.
    """
    info = _info(folder)
    features = info["features"]
    files = sorted((folder / "data").glob("*/*.parquet"))
    if not files:
        raise DataError(f"{folder}: no data/chunk-*/*.parquet; fetch it again")
    camera = _camera(features, keys)
    observed = [EPISODE] if camera else _observed(folder, features, keys)
    there = column_names(files[0])
    outcomes = {name: [column] for name, column in OUTCOMES.items() if column in there}
    chosen_columns = {
        "observations": observed,
        "actions": ["action"],
        "episode": [EPISODE],
        **({"order": [ORDER]} if ORDER in there else {}),
        **outcomes,
    }
    lacking = [column for columns in chosen_columns.values() for column in columns if column not in there]
    if lacking:
        raise DataError(f"{folder}: its tables have no '{lacking[0]}' (they have {', '.join(there[:12])})")
    table = parquet_columns(files, [column for columns in chosen_columns.values() for column in columns])
    frames = info.get("total_frames")
    rows = len(table[EPISODE])
    if isinstance(frames, int) and frames != rows:
        raise DataError(
            f"{folder}: {INFO} says {frames} frames, its tables have {rows}: fetch the rest of its files"
        )
    if camera is None:
        return rows_of_table(str(folder), table, _layout(info, features, observed), chosen_columns)._replace(
            where=str(folder)
        )
    raw = rows_of_table(str(folder), table, _layout(info, features, [camera]), chosen_columns)
    return raw._replace(where=str(folder), arrays=raw.arrays | {"observations": _video(folder, camera, rows)})


def _camera(features: dict[str, Any], keys: list[str] | None) -> str | None:
    """The video that is observed: the one that is named, or the only one where no numbers are."""
    videos = [name for name, feature in features.items() if _kind(feature) == "video"]
    if keys is not None:
        return keys[0] if len(keys) == 1 and keys[0] in videos else None
    return videos[0] if len(videos) == 1 and not _numbers(features) else None


def _video(folder: Path, camera: str, rows: int) -> Frames:
    """Frames of all episodes, which its files hold one after the other."""
    films = sorted(path for path in (folder / "videos").rglob("*.mp4") if camera in path.parts)
    if not films:
        raise DataError(f"{folder}: no videos/.../{camera}/...mp4; fetch it again with its videos")
    check_budget(folder, {camera: frame_bytes(films[0]) * rows})
    frames = read_frames(films)
    if len(frames) != rows:
        raise DataError(f"{folder}: the videos of {camera} have {len(frames)} frames, its tables {rows} rows")
    return frames


def _info(folder: Path) -> dict[str, Any]:
    try:
        info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        features = info["features"]
        assert isinstance(features, dict)
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise DataError(f"{folder / INFO}: cannot be read ({str(error)[:80]}). Fetch it again") from None
    return info


def _observed(folder: Path, features: dict[str, Any], keys: list[str] | None) -> list[str]:
    numbers = _numbers(features)
    for key in keys or ():
        if key not in features or _kind(features[key]) in PICTURES:
            raise DataError(f"{folder}: no observation '{key}' in numbers (there are {', '.join(numbers)})")
    if not numbers and not keys:
        raise DataError(
            f"{folder}: observes pictures alone ({', '.join(features)}); choose one camera's video: rl data convert "
            f"{folder} NEW.hdf5 --columns observations=KEY"
        )
    return list(keys) if keys else numbers


def _numbers(features: dict[str, Any]) -> list[str]:
    return sorted(
        name
        for name, feature in features.items()
        if name.startswith("observation.") and _kind(feature) not in (*PICTURES, "string")
    )


def _kind(feature: Any) -> str:
    return str(feature.get("dtype", "")) if isinstance(feature, dict) else ""


def _layout(info: dict[str, Any], features: dict[str, Any], observed: list[str]) -> str:
    pictures = [
        name for name, feature in features.items() if _kind(feature) in PICTURES and name not in observed
    ]
    text = f"LeRobot {info.get('codebase_version', '')}: observations {', '.join(observed)}"
    return text + (f"; without {', '.join(pictures)}" if pictures else "")
