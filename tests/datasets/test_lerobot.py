"""LeRobot's folders, rebuilt as v3 lays them out."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rl_lightning.analysis.dataset_tables import check_dataset
from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.formats.pictures import picture_shape
from rl_lightning.errors import DataError
from rl_lightning.rollout.video import write_video

pytest.importorskip("pyarrow")
LENGTHS = (4, 3, 2)
FEATURES = {
    "observation.state": {"dtype": "float32", "shape": [2], "names": ["x", "y"]},
    "observation.environment_state": {"dtype": "float32", "shape": [1], "names": None},
    "observation.images.top": {"dtype": "video", "shape": [8, 8, 3], "names": ["height", "width", "channel"]},
    "action": {"dtype": "float32", "shape": [2], "names": None},
    "next.reward": {"dtype": "float32", "shape": [1], "names": None},
    "next.done": {"dtype": "bool", "shape": [1], "names": None},
    "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    "frame_index": {"dtype": "int64", "shape": [1], "names": None},
    "episode_index": {"dtype": "int64", "shape": [1], "names": None},
    "index": {"dtype": "int64", "shape": [1], "names": None},
    "task_index": {"dtype": "int64", "shape": [1], "names": None},
}


def table(episodes, outcomes: bool = True):
    import pyarrow

    columns: dict = {}
    for episode in episodes:
        steps = LENGTHS[episode]
        for t in range(steps):
            row = {
                "observation.state": np.array([episode, t], np.float32),
                "observation.environment_state": np.float32(7),
                "action": np.array([0.1 * t, -0.1], np.float32),
                "next.reward": np.float32(t == steps - 1),
                "next.done": t == steps - 1,
                "timestamp": np.float32(t / 10),
                "frame_index": t,
                "episode_index": episode,
                "index": sum(LENGTHS[:episode]) + t,
                "task_index": 0,
            }
            for key, value in row.items():
                if outcomes or not key.startswith("next."):
                    columns.setdefault(key, []).append(value)
    pair = pyarrow.list_(pyarrow.float32(), 2)  # of fixed size, as LeRobot 0.4 writes them
    return pyarrow.table(
        {
            key: pyarrow.array(values, pair)
            if key in ("observation.state", "action")
            else pyarrow.array(values)
            for key, values in columns.items()
        }
    )


@pytest.fixture
def folder(tmp_path) -> Path:
    return write(tmp_path / "pusht")


def write(root: Path, outcomes: bool = True) -> Path:
    import pyarrow.parquet

    features = {key: value for key, value in FEATURES.items() if outcomes or not key.startswith("next.")}
    info = {
        "codebase_version": "v3.0", "fps": 10, "total_episodes": 3, "total_frames": 9, "features": features,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }  # fmt: skip
    for place in ("meta/episodes/chunk-000", "data/chunk-000", "videos/observation.images.top/chunk-000"):
        (root / place).mkdir(parents=True)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    (root / "videos/observation.images.top/chunk-000/file-000.mp4").write_bytes(b"no film")
    episodes = pyarrow.table({"episode_index": [0, 1, 2], "length": list(LENGTHS)})
    pyarrow.parquet.write_table(episodes, root / "meta/episodes/chunk-000/file-000.parquet")
    pyarrow.parquet.write_table(table([0, 1], outcomes), root / "data/chunk-000/file-000.parquet")
    pyarrow.parquet.write_table(table([2], outcomes), root / "data/chunk-000/file-001.parquet")
    return root


def test_frames_of_all_files(folder):
    data = load_dataset(str(folder))
    assert data.lengths().tolist() == [4, 3, 2] and data.rows == 9 and not data.missing
    assert data.obs[:, 0].tolist() == [7] * 9, "environment_state stands before state"
    assert data.obs[:, 1].tolist() == [0] * 4 + [1] * 3 + [2] * 2
    assert data.terminated.nonzero()[:, 0].tolist() == [3, 6, 8] and data.reward.sum() == 3
    text, _ = check_dataset(str(folder))
    assert "LeRobot v3.0: observations observation.environment_state, observation.state; without" in text
    assert "observation.images.top" in text


def test_teleoperated_demonstrations_have_no_outcomes(tmp_path):
    data = load_dataset(str(write(tmp_path / "a", outcomes=False)))
    assert data.missing == ("rewards", "terminals") and data.lengths().tolist() == [4, 3, 2]


def test_features_that_are_told(folder, tmp_path):
    convert(str(folder), tmp_path / "a.hdf5", columns="observations=observation.state")
    assert load_dataset(str(tmp_path / "a.hdf5")).obs.shape == (9, 2)
    with pytest.raises(DataError, match=r"no observation 'observation.images.side' in numbers"):
        convert(str(folder), tmp_path / "b.hdf5", columns="observations=observation.images.side")


def test_a_camera_that_is_told(folder, tmp_path):
    film = folder / "videos/observation.images.top/chunk-000/file-000.mp4"
    with pytest.raises(DataError, match="not a film that can be read"):
        convert(str(folder), tmp_path / "b.hdf5", columns="observations=observation.images.top")
    write_video([np.full((8, 8, 3), 25 * t, np.uint8) for t in range(9)], film, 10)
    convert(str(folder), tmp_path / "b.hdf5", columns="observations=observation.images.top")
    rows = load_dataset(str(tmp_path / "b.hdf5"))
    assert picture_shape(rows.about) == (3, 8, 8) and rows.lengths().tolist() == [4, 3, 2]
    assert np.allclose(rows.obs.float().mean(1), 25.0 * np.arange(9), atol=3)
    write_video([np.zeros((8, 8, 3), np.uint8)] * 8, film, 10)
    with pytest.raises(DataError, match="have 8 frames, its tables 9 rows"):
        convert(str(folder), tmp_path / "c.hdf5", columns="observations=observation.images.top")


def test_a_file_that_is_missing_is_missed(folder):
    (folder / "data/chunk-000/file-001.parquet").unlink()
    with pytest.raises(DataError, match="says 9 frames, its tables have 7"):
        load_dataset(str(folder))
    (folder / "data/chunk-000/file-000.parquet").unlink()
    with pytest.raises(DataError, match="fetch it again"):
        load_dataset(str(folder))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"features": 3}'])
def test_a_bad_info(folder, text):
    (folder / "meta" / "info.json").write_text(text)
    with pytest.raises(DataError, match="cannot be read"):
        load_dataset(str(folder))


def test_pictures_alone(folder):
    info = json.loads((folder / "meta" / "info.json").read_text())
    info["features"] = {key: info["features"][key] for key in ("observation.images.top", "action")}
    info["features"]["observation.images.side"] = info["features"]["observation.images.top"]
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    with pytest.raises(DataError, match="observes pictures alone"):
        load_dataset(str(folder))


def test_the_checksum_is_of_all_files(folder):
    before = load_dataset(str(folder)).sha256
    assert before == load_dataset(str(folder)).sha256
    (folder / "meta" / "tasks.parquet").write_bytes(b"x")
    assert before != load_dataset(str(folder)).sha256
