"""A run's replay as a data set: windows become the steps that they were made of."""

import json

import numpy as np
import pytest
import torch

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.formats.replay_rows import sequence_rows
from rl_lightning.datasets.formats.run_replay import find_replay, is_run, replay_digest
from rl_lightning.datasets.in_memory import as_dataset
from rl_lightning.datasets.load import read_header
from rl_lightning.errors import DataError
from rl_lightning.replay import SequenceReplay
from rl_lightning.replay.recorded_sequences import fill_with_episodes
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("CartPole-v1", (4,), action_kind="discrete", action_sizes=(2,), max_episode_steps=500)


def episodes(lengths=(5, 3, 7, 4)):
    """Observations count on, so that every row is known again; every other episode terminates."""
    draw, parts = np.random.default_rng(0), []
    for e, length in enumerate(lengths):
        x = 100.0 * e + np.arange(length + 1)[:, None] + np.zeros(4)
        last = np.arange(length) == length - 1
        parts.append(
            {
                "observations": x[:-1].astype(np.float32),
                "next_observations": x[1:].astype(np.float32),
                "actions": draw.integers(0, 2, length),
                "rewards": x[1:, 0].astype(np.float32),
                "terminals": last & (e % 2 == 0),
                "timeouts": last & (e % 2 == 1),
            }
        )
    return as_dataset({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def played(envs=1, capacity=100, rows=None):
    buffer = SequenceReplay(SPEC, envs, 2, 0, capacity=capacity)
    fill_with_episodes(buffer, rows or episodes(), SPEC)
    return buffer


def run_folder(root, buffer, name="dreamer-1"):
    """A run with one checkpoint, as a fit leaves it."""
    checkpoint = root / name / "checkpoints" / "last-000001"
    checkpoint.mkdir(parents=True)
    store = SegmentStore(root / name / "checkpoints" / "replay" / "rank-0")
    state = {"buffers": {"replay": buffer.save(store)}, "collector": {"obs": torch.zeros(buffer.num_envs, 4)}}
    torch.save({"data": state}, checkpoint / "rank-0.pt")
    counts = {"env_step": 19, "update": 3, "ranks": 1, "files": {}, "segments": [], "algorithm": "Dreamer"}
    (checkpoint / "meta.json").write_text(json.dumps({**counts, "spec": list(SPEC)}))
    return root / name


@pytest.mark.parametrize("envs", [1, 2])
def test_steps_are_those_that_were_played(tmp_path, envs):
    rows, store = episodes(), SegmentStore(tmp_path)
    arrays = sequence_rows(played(envs).save(store), store, "x").arrays
    order = np.argsort(arrays["observations"][:, 0], kind="stable")
    assert (arrays["observations"][order] == rows.obs.numpy()).all()
    assert (arrays["next_observations"][order] == rows.next_obs.numpy()).all()
    for key, column in (("actions", rows.action), ("rewards", rows.reward), ("terminals", rows.terminated)):
        assert (arrays[key][order] == column.numpy()).all(), key
    assert (arrays["timeouts"] >= 0).all() and (arrays["timeouts"][order] == rows.truncated.numpy()).all()


def test_an_episode_that_goes_on_is_cut_and_one_broken_off_too(tmp_path):
    buffer, store = played(rows=episodes((5,))), SegmentStore(tmp_path)
    buffer.total[0] = 4  # the episode still goes on
    arrays = sequence_rows(buffer.save(store), store, "x").arrays
    assert arrays["timeouts"].tolist() == [False, False, True] and not arrays["terminals"].any()
    buffer.cuts.append((0, 1))
    arrays = sequence_rows(buffer.save(store), store, "x").arrays
    assert arrays["observations"][:, 0].tolist() == [0.0, 2.0] and arrays["timeouts"].all()


def test_a_run_is_a_data_set_by_name_and_by_path(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path))
    run = run_folder(tmp_path, played())
    assert is_run(run) and not is_run(tmp_path)
    there = run / "checkpoints" / "last-000001"
    names = ("dreamer-1", "dreamer-1/last-000001", str(run), str(there))
    assert [find_replay(name) for name in names] == [there] * 4
    rows = load_dataset("replay/dreamer-1")
    assert (rows.rows, rows.episodes, rows.spec.env_id) == (19, 4, "CartPole-v1")
    assert rows.sha256 == replay_digest(there) and load_dataset(str(run)).rows == 19
    assert read_header("replay/dreamer-1")[0].obs_shape == (4,)


def test_what_holds_no_replay_is_said_in_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path))
    with pytest.raises(DataError, match=r"no saved checkpoint of a run 'none'"):
        load_dataset("replay/none")
    run = run_folder(tmp_path, played())
    checkpoint = run / "checkpoints" / "last-000001"
    torch.save({"data": {"buffers": {}, "collector": {}}}, checkpoint / "rank-0.pt")
    with pytest.raises(DataError, match=r"dreamer-1' keeps no replay \(Dreamer\)"):
        load_dataset("replay/dreamer-1")
    (checkpoint / "rank-0.pt").unlink()
    with pytest.raises(DataError, match="no such checkpoint"):
        load_dataset("replay/dreamer-1")
