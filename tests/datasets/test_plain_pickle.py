"""Containers and tensors that pickles of experience hold, read without running anything."""

from __future__ import annotations

import collections
import os
import pickle

import numpy as np
import pytest
import torch

from rl_lightning.datasets.formats import plain_pickle
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.formats.plain_pickle import loads
from rl_lightning.errors import DataError


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_containers(protocol):
    values = collections.defaultdict(list, {"a": [1, 2]})
    nested = collections.defaultdict(dict, {"x": {"y": np.arange(3)}})
    value = {
        "default": values, "nested": nested, "deque": collections.deque([1, 2], maxlen=5),
        "order": collections.OrderedDict(b=1), "number": np.float32(0.5),
    }  # fmt: skip
    read = loads("f", pickle.dumps(value, protocol))
    assert type(read["default"]) is dict and read["default"] == {"a": [1, 2]}
    assert read["nested"]["x"]["y"].tolist() == [0, 1, 2] and read["deque"] == [1, 2]
    assert read["order"] == {"b": 1} and read["number"] == 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_become_arrays(dtype):
    tensor = torch.arange(12).reshape(3, 4).to(dtype)
    value = {"whole": tensor, "turned": tensor.t(), "part": tensor[1:, 2:], "one": tensor[0, 0]}
    value["parameter"] = torch.nn.Parameter(tensor.float())
    read = loads("f", pickle.dumps(value))
    for key, given in value.items():
        assert isinstance(read[key], np.ndarray), key
        np.testing.assert_array_equal(read[key], given.detach().float().numpy())


def test_episodes_of_tensors_in_a_defaultdict(tmp_path):
    episodes = []
    for steps in (4, 3):
        episode = collections.defaultdict(list)
        episode["obs"], episode["action"] = torch.ones(steps, 3), torch.zeros(steps, 2)
        episodes.append(episode)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(episodes))
    assert convert(str(tmp_path / "a.pkl"), tmp_path / "a.hdf5")[1] == 7


class Calls:
    def __init__(self, call, *args):
        self.call, self.args = call, args

    def __reduce__(self):
        return self.call, self.args


def test_the_same_bytes_many_times_over(monkeypatch):
    """A few bytes for each copy of a megabyte."""
    content = pickle.dumps([bytearray(1 << 20)], 4)
    assert loads("f", content)[0] == bytearray(1 << 20)
    monkeypatch.setattr(plain_pickle, "SHARE", 1e-12)
    with pytest.raises(DataError, match="the same bytes many times over"):
        loads("f", content)


@pytest.mark.parametrize(
    "value",
    [
        collections.defaultdict(os.getcwd),
        Calls(list, range(3)),
        Calls(collections.deque, [1, 2]),
        Calls(torch._utils._rebuild_tensor_v2, 3, 0, (1,), (1,), False, None),
        torch.zeros(1).expand(1 << 30),
        Calls(torch.storage._load_from_bytes, pickle.dumps(Calls(os.mkdir, "attacked"))),
        Calls(os.mkdir, "attacked"),
    ],
    ids=["factory", "list of a range", "deque of a list", "no storage", "repeated", "nested", "call"],
)
def test_what_is_more_is_refused(value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"not run|not a pickle"):
        loads("f", pickle.dumps(value))
    assert not list(tmp_path.iterdir())
