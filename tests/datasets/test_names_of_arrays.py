"""One array has one name: D4RL's own, then another that means the same, and two that differ are refused."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile

import numpy as np
import pytest
import torch
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.errors import DataError


def save(folder, suffix, arrays):
    path = folder / f"a{suffix}"
    if suffix == ".hdf5":
        return str(write(path, arrays))
    if suffix == ".npz":
        np.savez(path, **arrays)
    elif suffix == ".pt":
        torch.save({key: torch.from_numpy(array) for key, array in arrays.items()}, path)
    else:
        path.write_bytes(pickle.dumps(arrays))
        return str(convert(str(path), folder / "converted.hdf5")[0])
    return str(path)


FORMATS = pytest.mark.parametrize("suffix", [".hdf5", ".npz", ".pt", ".pkl"])


@FORMATS
def test_d4rls_own_name_wins(tmp_path, suffix):
    arrays = make_rows([4, 3], [True, False])
    more = {
        "states": np.ones((7, 9), np.float32),
        "obs": arrays["observations"] * 2,
        "acts": np.zeros((7, 5)),
    }
    path = save(tmp_path, suffix, {**more, **arrays, "reward": -arrays["rewards"]})
    data = load_dataset(path)
    np.testing.assert_array_equal(data.obs.numpy(), arrays["observations"])
    np.testing.assert_array_equal(data.reward.numpy(), arrays["rewards"])
    assert read_header(path)[0] == data.spec and data.spec.action_shape == (2,)


@FORMATS
def test_two_others_that_differ_are_refused(tmp_path, suffix):
    arrays = make_rows([4, 3], [True, False])
    obs = arrays.pop("observations")
    same = {**arrays, "obs": obs, "states": obs.copy()}
    np.testing.assert_array_equal(load_dataset(save(tmp_path, suffix, same)).obs.numpy(), obs)
    (tmp_path / "converted.hdf5").unlink(missing_ok=True)
    with pytest.raises(DataError, match=r"'obs' and 'states' may be 'observations', and they differ"):
        load_dataset(save(tmp_path, suffix, {**arrays, "obs": obs, "states": obs + 1}))


def test_members_of_an_archive_that_come_twice(tmp_path):
    arrays = make_rows([4, 3], [True, False])
    np.savez(tmp_path / "a.npz", **arrays)
    for factor, word in ((1, None), (5, "'rewards' twice")):
        content = io.BytesIO()
        np.save(content, arrays["rewards"] * np.float32(factor))
        with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
            warnings.simplefilter("ignore")
            archive.writestr("rewards.npy", content.getvalue())
        if word is None:
            assert load_dataset(str(tmp_path / "a.npz")).rows == 7
            continue
        with pytest.raises(DataError, match=word):
            load_dataset(str(tmp_path / "a.npz"))


@FORMATS
def test_dones_stand_for_terminals_and_it_is_said(tmp_path, suffix):
    """A time limit that `dones` counts, too, is not a terminal."""
    arrays = make_rows([4, 3], [True, False])
    arrays["dones"] = arrays["terminals"] | arrays["timeouts"]
    terminals = arrays.pop("terminals")
    data = load_dataset(save(tmp_path, suffix, arrays))
    assert data.terminated.tolist() == terminals.tolist() and "'dones'" in data.about["read/dones"]
    both = {**arrays, "terminals": np.zeros(7, bool)}
    (tmp_path / "converted.hdf5").unlink(missing_ok=True)
    data = load_dataset(save(tmp_path, suffix, both))
    assert not data.terminated.any() and "read/dones" not in data.about


@pytest.mark.parametrize("whole", [True, False])
def test_rows_and_episodes_with_dones(tmp_path, whole):
    arrays = make_rows([4, 3], [True, False])
    arrays["dones"] = arrays.pop("terminals")
    cut = [slice(0, 4), slice(4, 7)] if whole else range(7)
    rows = [{key: array[part] for key, array in arrays.items()} for part in cut]
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(rows))
    convert(str(tmp_path / "a.pkl"), tmp_path / "b.hdf5")
    data = load_dataset(str(tmp_path / "b.hdf5"))
    assert data.terminated.nonzero().tolist() == [[3]] and "'dones'" in data.about["read/dones"]
    for row in rows:
        row["obs"], row["states"] = row["observations"], row.pop("observations") + 1
    (tmp_path / "c.pkl").write_bytes(pickle.dumps(rows))
    with pytest.raises(DataError, match="and they differ"):
        convert(str(tmp_path / "c.pkl"), tmp_path / "d.hdf5")
