"""OGBench's scripted recordings: an episode at a time, the same whether or not it was stopped in between."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

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


@pytest.mark.parametrize(("family", "size", "noisy"), [("scene", "", False), ("cube", "-double", True)])
def test_an_episode_is_the_same_whatever_was_recorded_before(short, family, size, noisy):
    name = f"ogbench/{family}{size}-{'noisy' if noisy else 'play'}-v0"
    recorder = recording._Recorder(name, family, noisy)
    recorder.episode(1)
    again = recorder.episode(2)
    alone = recording._Recorder(name, family, noisy).episode(2)
    for key, rows in alone.items():
        np.testing.assert_array_equal(again[key], rows, key)


def test_another_process_waits_and_finds_it(folder, short, monkeypatch):
    """Both at once would take each other's episodes away."""
    calls = []

    def count(self, seed, episode=recording._Recorder.episode):
        calls.append(seed)
        return episode(self, seed)

    monkeypatch.setattr(recording._Recorder, "episode", count)
    with ThreadPoolExecutor(
        2
    ) as pool:  # a lock on a file parts threads that opened it each for themselves, too
        texts = list(pool.map(lambda _: record_ogbench("ogbench/cube-single-play", 2), range(2)))
    assert len(calls) == 2 and texts[0] == texts[1]
    assert load_dataset("ogbench/cube-single-play").episodes == 2


@pytest.mark.slow
def test_a_killed_recording_ends_as_one_that_was_not(folder):
    """By kill -9, in the middle of an episode: two whole ones of 200 rows, the rest recorded after."""
    pytest.importorskip("ogbench", exc_type=ImportError)
    script = (
        "from rl_lightning.runs.recording import record_ogbench as r\n"
        "r.STEPS = 120\nprint(r.record_ogbench('ogbench/cube-single-play', 4))"
    )

    def process(place: Path) -> subprocess.Popen:
        env = os.environ | {"RL_DATA_DIR": str(place), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.DEVNULL)

    parts = folder.parent / "cut" / "ogbench" / ".cube-single-play-v0.npz.parts"
    first = process(folder.parent / "cut")
    until = time.monotonic() + 60
    while len(list(parts.glob("0*.npz"))) < 2 and first.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    assert first.wait(60) == -signal.SIGKILL and not (parts.parent / "cube-single-play-v0.npz").exists()
    assert process(folder.parent / "cut").wait(120) == process(folder.parent / "whole").wait(120) == 0
    cut, whole = (folder.parent / each / "ogbench" / "cube-single-play-v0.npz" for each in ("cut", "whole"))
    assert cut.read_bytes() == whole.read_bytes() and len(np.load(whole)["actions"]) == 480
    assert not parts.exists()


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
