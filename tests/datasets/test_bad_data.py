"""Bad data are refused in one to three lines that name the file and the remedy; nothing in a file is ever run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.formats.plain_pickle import read_pickle
from rl_lightning.errors import DataError


def refused(path: Path, *words: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(str(path))
    text = str(caught.value)
    assert 1 <= len(text.splitlines()) <= 3 and path.name in text, text
    for word in words:
        assert word in text, text


CHANGES = {
    "missing": (lambda a: a.pop("actions"), ["no array 'actions'", "observations"]),
    "short": (lambda a: a.update(actions=a["actions"][:-1]), ["'actions' has 6 rows", "7"]),
    "nan": (
        lambda a: a["observations"].__setitem__((3, 1), np.nan),
        ["'observations'", "row 3", "--drop_nonfinite"],
    ),
    "inf": (lambda a: a["rewards"].__setitem__(2, np.inf), ["'rewards'", "row 2"]),
    "too large": (lambda a: a.update(rewards=np.full(7, 1e300)), ["'rewards'", "infinite"]),
    "text": (lambda a: a.update(rewards=np.array([b"x"] * 7)), ["'rewards' holds text"]),
    "complex": (lambda a: a.update(rewards=np.ones(7, complex)), ["'rewards'", "complex"]),
    "wide rewards": (lambda a: a.update(rewards=np.ones((7, 2))), ["'rewards' has shape (7, 2)"]),
    "flags": (lambda a: a.update(terminals=np.full(7, 3)), ["'terminals' must be 0 or 1"]),
    "scalar": (lambda a: a.update(observations=np.float32(1)), ["'observations' is a single number"]),
    "pixels": (lambda a: a.update(observations=np.ones((7, 2, 2), np.float32)), ["flat observations"]),
    "next shape": (lambda a: a.update(next_observations=np.ones((7, 9))), ["'next_observations' has shape"]),
    "actions": (lambda a: a.update(actions=a["actions"] * 3), ["[-1, 1]", "--action_low"]),
    "negative": (lambda a: a.update(actions=np.full(7, -1)), ["negative"]),
    "empty": (lambda a: a.update({k: v[:0] for k, v in a.items()}), ["no rows"]),
}


@pytest.mark.parametrize("case", CHANGES)
def test_bad_arrays(tmp_path, case):
    arrays = make_rows([4, 3], [True, False])
    change, words = CHANGES[case]
    change(arrays)
    refused(write(tmp_path / "bad.hdf5", arrays), *words)


@pytest.mark.parametrize("case", ["missing", "empty"])
def test_peek_refuses_too(tmp_path, case):
    arrays = make_rows([4, 3], [True, False])
    CHANGES[case][0](arrays)
    with pytest.raises(DataError):
        read_header(str(write(tmp_path / "bad.hdf5", arrays)))


@pytest.mark.parametrize("keep", [0, 100, 0.5, 0.98])
def test_truncated_hdf5(tmp_path, keep):
    path = write(tmp_path / "cut.hdf5", make_rows([400, 300], [True, False]))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep * len(whole)) if keep < 1 else keep])
    refused(path, "damaged, cut short or not HDF5")


def test_corrupted_chunk(tmp_path):
    path = write(tmp_path / "bad.hdf5", make_rows([400, 300], [True, False]), compression="gzip")
    content = bytearray(path.read_bytes())
    with h5py.File(path) as file:
        at = file["observations"].id.get_chunk_info(0).byte_offset
    content[at : at + 64] = bytes(64)
    path.write_bytes(content)
    refused(path, "damaged")


@pytest.mark.parametrize("name", ["x.hdf5", "x.npz", "x.pt"])
def test_noise_is_no_data_set(tmp_path, name):
    (tmp_path / name).write_bytes(b"\x80\x05 not what it says" * 9)
    refused(tmp_path / name)


def test_missing_files_and_odd_names(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "d4rl-own"))
    for name, word in [
        ("nowhere.hdf5", "no such file"),
        ("d4rl/hopper-medium-v2", "rl data get d4rl/hopper-medium-v2"),
        ("d4rl/hopper-medium-v3", "did you mean"),
        ("local/hopper-medium", "rl data make local/hopper-medium"),
        ("hopper-medium-v2", "did you mean 'd4rl/hopper-medium-v2'"),
        ("local/../../secret", "not the name"),
        ("local/a/b", "not the name"),
        ("", "not a data set"),
        ("a\0b", "not a data set"),
    ]:
        with pytest.raises(DataError) as caught:
            load_dataset(name)
        assert word in str(caught.value), (name, str(caught.value))
        assert len(str(caught.value).splitlines()) <= 3


def test_links_and_foreign_storage_are_not_followed(tmp_path):
    other = write(tmp_path / "other.hdf5", make_rows([4, 3], [True, False]))
    arrays = make_rows([4, 3], [True, False])
    rewards = arrays.pop("rewards")
    path = write(tmp_path / "links.hdf5", arrays)
    with h5py.File(path, "a") as file:
        file["rewards"] = h5py.ExternalLink(str(other), "rewards")
    refused(path, "'rewards' is a link")
    (tmp_path / "raw.bin").write_bytes(rewards.tobytes())
    path = write(tmp_path / "external.hdf5", arrays)
    with h5py.File(path, "a") as file:
        file.create_dataset("rewards", (7,), "f4", external=[("raw.bin", 0, 28)])
    refused(path, "other files")


def test_huge_declared_shapes_are_not_allocated(tmp_path):
    arrays = make_rows([4, 3], [True, False])
    del arrays["observations"]
    path = write(tmp_path / "bomb.hdf5", arrays)
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (1 << 40, 8), "f4", chunks=(1024, 8))
    refused(path, "more than half of the free memory")


class Hostile:
    """Leaves a mark if it is ever unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_hostile_pickles_do_not_run(tmp_path):
    mark = tmp_path / "it-ran"
    arrays = make_rows([4, 3], [True, False])
    bad = tmp_path / "bad.pkl"
    bad.write_bytes(pickle.dumps({**arrays, "extra": Hostile(mark)}))
    with pytest.raises(DataError, match=r"posix\.mkdir.*was not run"):
        read_pickle(bad)
    refused(bad, "rl data convert")  # training does not even look at pickles
    np.savez(tmp_path / "a.npz", **{**arrays, "rewards": np.array([Hostile(mark)] * 7, object)})
    refused(tmp_path / "a.npz", "'rewards'", "can run code")
    torch.save({**{k: torch.from_numpy(v) for k, v in arrays.items()}, "x": Hostile(mark)}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", "can run code")
    with h5py.File(tmp_path / "objects.hdf5", "w") as file:
        for key, array in arrays.items():
            file[key] = array if key != "rewards" else [b"x" * n for n in range(7)]
        del file["rewards"]
        file.create_dataset("rewards", data=["a"] * 7, dtype=h5py.string_dtype())
    refused(tmp_path / "objects.hdf5", "'rewards' holds objects")
    assert not mark.exists()


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins.eval", "builtins.getattr", "numpy.load", "numpy.f2py.compile", "subprocess.Popen",
     "numpy.core.multiarray.fromfile", "functools.partial"],
)  # fmt: skip
def test_no_other_name_is_admitted(tmp_path, name):
    module, _, attribute = name.rpartition(".")
    path = tmp_path / "x.pkl"
    path.write_bytes(b"c" + f"{module}\n{attribute}\n".encode() + b".")
    with pytest.raises(DataError, match="was not run"):
        read_pickle(path)


def test_plain_pickles_of_every_protocol(tmp_path):
    value = {
        "a": np.arange(6.0).reshape(2, 3),
        "b": np.float32(2),
        "c": [1, "x", None, b"y", (True,)],
        "d": {1, 2},
    }
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        path = tmp_path / "x.pkl"
        del_set = value if protocol >= 4 else {key: item for key, item in value.items() if key != "d"}
        path.write_bytes(pickle.dumps(del_set, protocol))
        found = read_pickle(path)
        np.testing.assert_array_equal(found["a"], value["a"])
        assert found["b"] == 2 and found["c"] == value["c"]


def test_object_arrays_in_a_pickle_are_refused(tmp_path):
    from rl_lightning.datasets.formats.convert import convert

    arrays = make_rows([4, 3], [True, False])
    arrays["rewards"] = np.array([1.0, None] + [2.0] * 5, object)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(arrays))
    with pytest.raises(DataError, match="'rewards' holds pickled Python objects"):
        convert(str(tmp_path / "x.pkl"), tmp_path / "x.hdf5")
    assert not (tmp_path / "x.hdf5").exists()
