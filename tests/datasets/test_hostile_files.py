"""Files that are not what they say: named for what they are, within one budget of memory, and nothing is run."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import shutil
import time
import zipfile
from types import SimpleNamespace

import h5py
import numpy as np
import psutil
import pytest
import torch
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.layouts.recognize import read_any
from rl_lightning.errors import DataError


@pytest.fixture
def arrays():
    return make_rows([4, 3], [True, False])


@pytest.fixture
def scarce(monkeypatch):
    """A machine with four megabytes left: a file may take two."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=4 << 20))


def refused(path, *words, read=load_dataset):
    with pytest.raises(DataError) as caught:
        read(str(path))
    text = str(caught.value)
    assert 1 <= len(text.splitlines()) <= 3 and path.name in text, text
    assert "num_envs" not in text and "envs" not in text, text
    for word in words:
        assert word in text, text


def member(array, shape=None):
    """An .npy that may declare another shape than it has."""
    file = io.BytesIO()
    head = {"descr": array.dtype.str, "fortran_order": False, "shape": shape or array.shape}
    np.lib.format.write_array_header_1_0(file, head)
    return file.getvalue() + array.tobytes()


def encrypted(content: bytes) -> bytes:
    """The archive with the flag of encryption on each member."""
    raw = bytearray(content)
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = raw.find(sign)
        while at >= 0:
            raw[at + offset] |= 1
            at = raw.find(sign, at + 4)
    return bytes(raw)


def test_an_encrypted_archive(tmp_path, arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    (tmp_path / "b.npz").write_bytes(encrypted((tmp_path / "a.npz").read_bytes()))
    refused(tmp_path / "b.npz", "is encrypted")


@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_files_under_a_wrong_name(tmp_path, arrays, suffix):
    shutil.copy(write(tmp_path / "a.hdf5", arrays), tmp_path / f"h5{suffix}")
    refused(tmp_path / f"h5{suffix}", "is an HDF5 file", "Rename it to h5.hdf5")
    (tmp_path / f"gz{suffix}").write_bytes(gzip.compress(b"rows" * 100))
    refused(tmp_path / f"gz{suffix}", "is a gzip file")


@pytest.mark.parametrize("name", ["folder", "folder.npz", "folder.hdf5"])
def test_a_folder(tmp_path, name):
    (tmp_path / name).mkdir()
    for read in (load_dataset, read_header):
        refused(tmp_path / name, "is a folder", read=read)


def test_rows_that_are_declared_and_not_there(tmp_path, arrays):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for key, array in arrays.items():
            archive.writestr(f"{key}.npy", member(array, (10**9,) if key == "rewards" else None))
    refused(tmp_path / "a.npz", "'rewards' declares 1000000000", "holds 28 bytes")


def test_empty_entries_of_hdf5(tmp_path, arrays):
    path = write(tmp_path / "a.hdf5", arrays)
    with h5py.File(path, "a") as file:
        file.create_dataset("infos/x", data=h5py.Empty("f4"))
    assert load_dataset(str(path)).rows == 7 and read_header(str(path))[1]["rows"] == 7
    with h5py.File(path, "a") as file:
        del file["rewards"]
        file.create_dataset("rewards", data=h5py.Empty("f4"))
    refused(path, "'rewards' is an empty entry")


@pytest.mark.parametrize("kind", ["sparse", "meta", "float8", "quantized"])
def test_odd_tensors(tmp_path, arrays, kind):
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    obs = tensors["observations"]
    odd = {
        "sparse": lambda: obs.to_sparse(),
        "meta": lambda: obs.to("meta"),
        "float8": lambda: obs.to(torch.float8_e4m3fn),
        "quantized": lambda: torch.quantize_per_tensor(obs, 0.1, 0, torch.qint8),
    }[kind]()
    torch.save({**tensors, "observations": odd}, tmp_path / "a.pt")
    refused(tmp_path / "a.pt", "'observations' holds", "dense float32")
    torch.save({**tensors, "unknown": odd}, tmp_path / "b.pt")
    assert load_dataset(str(tmp_path / "b.pt")).rows == 7  # what no data set has is not looked at


BAD_METADATA = {
    "action_low": b"abc",
    "action_high": b"1, 1",
    "action_sizes": b"many",
}


@pytest.mark.parametrize("key", BAD_METADATA)
def test_text_in_place_of_numbers_in_the_metadata(tmp_path, arrays, key):
    if key == "action_sizes":
        arrays["actions"] = np.zeros(7, int)
    path = write(tmp_path / "a.hdf5", arrays, {key: BAD_METADATA[key]})
    for read in (load_dataset, read_header):
        refused(path, f"'metadata/{key}'", "numbers", read=read)


def test_one_budget_for_all_arrays_of_a_file(tmp_path, arrays, scarce):
    """Each array fits alone; together they do not."""
    path = write(tmp_path / "a.hdf5", arrays)
    assert load_dataset(str(path)).rows == 7
    with h5py.File(path, "a") as file:
        for key in ("observations", "actions"):
            del file[key]
            file.create_dataset(key, (1 << 17, 3), "f4", chunks=(1024, 3))  # 1.5 MB, nothing of it written
    refused(path, "unpacks to", "more than half of the free memory")
    wide = {key: np.zeros((1 << 17, 3), np.float32) for key in ("observations", "actions")}
    np.savez_compressed(tmp_path / "a.npz", **{**arrays, **wide})
    assert (tmp_path / "a.npz").stat().st_size < 10_000
    refused(tmp_path / "a.npz", "unpacks to", "more than half of the free memory")


def test_tensors_that_repeat_one_number_do_not_pass_the_budget(tmp_path, arrays, scarce):
    tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
    tensors["observations"] = torch.zeros(1).expand(1 << 30, 3)
    torch.save(tensors, tmp_path / "a.pt")
    assert (tmp_path / "a.pt").stat().st_size < 20_000
    refused(tmp_path / "a.pt", "unpacks to 12.0 GB")


def test_a_large_json_is_not_begun(tmp_path, scarce):
    path = tmp_path / "a.json"
    path.write_text("[" + "1," * 200_000 + "1]")
    refused(path, "more than half of the free memory", read=lambda name: read_any(path))


def doubled(levels: int) -> bytes:
    value = [1.0, 1.0]
    for _ in range(levels):
        value = [value, value]
    return pickle.dumps(dict.fromkeys(("observations", "actions", "rewards", "terminals"), value), 2)


class Allocates:
    """Calls an admitted name with arguments that would take gigabytes."""

    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


def test_small_pickles_that_unpack_to_gigabytes(tmp_path):
    from numpy._core.multiarray import _reconstruct, scalar

    contents = {
        "lists": doubled(26),
        "memo": b"\x80\x02K\x01r\xff\xff\xff\x7f.",
        "bytearray": pickle.dumps(Allocates(bytearray, 1 << 33)),
        "array": pickle.dumps(Allocates(_reconstruct, np.ndarray, (1 << 33,), b"b")),
        "class": pickle.dumps(Allocates(np.ndarray, (1 << 33,))),
        "scalar": pickle.dumps(Allocates(scalar, np.dtype("V1073741824"))),
    }
    before = psutil.Process(os.getpid()).memory_info().vms
    for name, content in contents.items():
        path, began = tmp_path / f"{name}.pkl", time.monotonic()
        path.write_bytes(content)
        assert len(content) < 400
        refused(path, read=lambda name: convert(name, tmp_path / "out.hdf5"))
        assert time.monotonic() - began < 2
    assert psutil.Process(os.getpid()).memory_info().vms - before < 1 << 29


def test_lists_that_hold_themselves(tmp_path):
    value: list = []
    value.append(value)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"observations": value}))
    refused(tmp_path / "a.pkl", "hold themselves", read=lambda name: convert(name, tmp_path / "out.hdf5"))
