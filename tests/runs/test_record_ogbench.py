"""OGBench's scripted recordings: an episode at a time, the same whether or not it was stopped in between."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from rl_lightning.datasets import load_dataset
from rl_lightning.errors import DataError
from rl_lightning.runs.recording import record_ogbench as recording
from rl_lightning.runs.recording.record_ogbench import in_sight, numpy_seeded, record_ogbench


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    return tmp_path / "ogbench"


@pytest.fixture
def short(monkeypatch):
    pytest.importorskip("ogbench", exc_type=ImportError)
    monkeypatch.setattr(recording, "STEPS", 30)


def test_a_recording_goes_on_where_it_was_stopped(folder, short, monkeypatch):
    record_ogbench("ogbench/cube-single-play", 3)
    whole = (folder / "cube-single-play-v0.npz").read_bytes()
    assert load_dataset("ogbench/cube-single-play").lengths().tolist() == [29] * 3
    with pytest.raises(DataError, match="is there already"):
        record_ogbench("ogbench/cube-single-play", 3)
    (folder / "cube-single-play-v0.npz").unlink()

    calls = []

    def stop(self, seed, episode=recording._Recorder.episode):
        calls.append(seed)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return episode(self, seed)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(recording._Recorder, "episode", stop)
        record_ogbench("ogbench/cube-single-play", 3)
    assert not (folder / "cube-single-play-v0.npz").exists()
    part = folder / ".cube-single-play-v0.npz.parts" / "000000.npz"
    first = part.stat().st_mtime_ns
    record_ogbench("ogbench/cube-single-play", 3)
    assert first and not part.exists()
    with np.load(folder / "cube-single-play-v0.npz") as again, np.load(io.BytesIO(whole)) as before:
        for key in before.files:
            np.testing.assert_array_equal(again[key], before[key])


@pytest.mark.parametrize("name", ["scene-noisy", "puzzle-3x3-play"])
def test_buttons_are_recorded(folder, short, name):
    record_ogbench(f"ogbench/{name}", 1)
    with np.load(folder / f"{name}-v0.npz") as file:
        assert file["button_states"].shape[0] == file["actions"].shape[0] == 30
        assert np.abs(file["actions"]).max() <= 1 and file["terminals"].nonzero()[0].tolist() == [29]


@pytest.mark.parametrize(
    "name", ["ogbench/antmaze-large-navigate-v0", "ogbench/cube-single", "ogbench/none-play"]
)
def test_what_has_no_script(name):
    with pytest.raises(DataError, match="has scripts for cube, scene and puzzle"):
        record_ogbench(name, 1)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ogbench.manipspace", None)
    with pytest.raises(DataError, match="Install it with"):
        record_ogbench("ogbench/cube-single-play", 1)


def test_the_global_generator_is_left_alone():
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    with numpy_seeded(5):
        np.random.rand()
    assert np.random.rand() == expected


def test_a_cube_that_is_out_of_sight():
    qpos = np.zeros((2, 20))
    qpos[:, 16] = 0.02
    assert in_sight(qpos)
    qpos[1, 15] = 0.3
    assert not in_sight(qpos)
    qpos[1, 15:17] = -0.31, 0.07
    assert in_sight(qpos), "in the drawer"
