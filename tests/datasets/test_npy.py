"""A single .npy: fields, columns, or a pickled value."""

from __future__ import annotations

import os

import numpy as np
import pytest
from data_files import make_rows

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.errors import DataError


def test_fields(tmp_path):
    rows = make_rows([4, 3], [True, False])
    kind = [
        ("obs", "f4", (3,)),
        ("action", "f4", (2,)),
        ("reward", "f4"),
        ("terminated", "?"),
        ("episode", "i4"),
    ]
    array = np.zeros(7, kind)
    for key, name in (
        ("obs", "observations"),
        ("action", "actions"),
        ("reward", "rewards"),
        ("terminated", "terminals"),
    ):
        array[key] = rows[name]
    array["episode"] = [5] * 4 + [6] * 3
    np.save(tmp_path / "a.npy", array)
    data = load_dataset(str(tmp_path / "a.npy"))
    assert data.lengths().tolist() == [4, 2] and not data.missing
    np.testing.assert_array_equal(data.obs.numpy(), rows["observations"][:6])


def test_columns_by_number(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(24.0).reshape(4, 6) / 24)
    with pytest.raises(DataError, match="--columns"):
        load_dataset(str(tmp_path / "a.npy"))
    told = "observations=0-2 actions=3,4 rewards=5"
    convert(str(tmp_path / "a.npy"), tmp_path / "a.hdf5", columns=told, max_episode_steps=2)
    data = load_dataset(str(tmp_path / "a.hdf5"))
    assert data.obs.shape == (4, 3) and data.action.shape == (4, 2) and data.episodes == 2


def test_a_pickled_dictionary_is_converted_and_never_trained_from(tmp_path):
    rows = make_rows([4, 3], [True, False])
    np.save(tmp_path / "a.npy", rows, allow_pickle=True)
    with pytest.raises(DataError, match="rl data convert"):
        load_dataset(str(tmp_path / "a.npy"))
    assert not any(line.bad for line in examine(locate(str(tmp_path / "a.npy"))))
    convert(str(tmp_path / "a.npy"), tmp_path / "a.hdf5")
    np.testing.assert_array_equal(load_dataset(str(tmp_path / "a.hdf5")).obs.numpy(), rows["observations"])


class Attack:
    def __reduce__(self):
        return os.mkdir, ("attacked",)


def test_a_pickle_in_it_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "a.npy", {"observations": Attack()}, allow_pickle=True)
    with pytest.raises(DataError, match=r"posix\.mkdir"):
        convert(str(tmp_path / "a.npy"), tmp_path / "a.hdf5")
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize("keep", [0, 5, 100, 0.5])
def test_a_damaged_file(tmp_path, keep):
    np.save(tmp_path / "a.npy", np.zeros((100, 6)))
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(whole[: int(keep * len(whole)) if keep < 1 else keep])
    with pytest.raises(DataError, match=r"damaged|cut short"):
        load_dataset(str(tmp_path / "a.npy"))


def test_one_column_is_no_data_set(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(9))
    with pytest.raises(DataError, match="into a folder"):
        load_dataset(str(tmp_path / "a.npy"))
