"""A folder of episodes, or of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from data_files import make_rows

from rl_lightning.analysis.dataset_tables import check_dataset
from rl_lightning.datasets import load_dataset
from rl_lightning.errors import DataError

WORDS = {"observations": "obs", "actions": "action", "rewards": "reward", "terminals": "terminated"}


def episodes(folder, lengths=(4, 3), **more):
    rows, start = make_rows(list(lengths), [True, False]), 0
    for number, steps in enumerate(lengths):
        part = {word: rows[key][start : start + steps] for key, word in WORDS.items()}
        np.savez(folder / f"episode-{number:03d}.npz", **part, **more)
        start += steps
    return rows


def test_an_npz_for_each_episode(tmp_path):
    rows = episodes(tmp_path)
    data = load_dataset(str(tmp_path))
    np.testing.assert_array_equal(data.obs.numpy(), rows["observations"][:6])
    assert data.lengths().tolist() == [4, 2] and data.terminated.nonzero()[:, 0].tolist() == [3]
    assert "a folder of 2 episodes" in check_dataset(str(tmp_path))[0]


def test_an_npy_for_each_array(tmp_path):
    rows = make_rows([4, 3], [True, False])
    for key, array in rows.items():
        np.save(tmp_path / f"{key}.npy", array)
    data = load_dataset(str(tmp_path))
    np.testing.assert_array_equal(data.next_obs.numpy(), rows["next_observations"])
    assert data.about["read/layout"] == "a folder of 6 arrays"


def test_what_cannot_be_told_is_refused(tmp_path):
    with pytest.raises(DataError, match="is a folder without a data set"):
        load_dataset(str(tmp_path))
    episodes(tmp_path, is_first=np.zeros(4))
    with pytest.raises(DataError, match="as Dreamer's do"):
        load_dataset(str(tmp_path))
    np.save(tmp_path / "actions.npy", np.zeros(3))
    with pytest.raises(DataError, match=r"episodes \(\.npz\) or arrays \(\.npy\)"):
        load_dataset(str(tmp_path))


def test_a_damaged_episode_is_named(tmp_path):
    episodes(tmp_path)
    path = tmp_path / "episode-001.npz"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"episode-001.npz"):
        load_dataset(str(tmp_path))
