"""RLlib's JSON lines, packed and plain."""

from __future__ import annotations

import base64
import json
import os
import pickle

import numpy as np
import pytest
from public_files import public_file

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.layouts.rllib import is_rllib
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.errors import DataError


def packed(value) -> str:
    lz4 = pytest.importorskip("lz4.frame")
    return base64.b64encode(lz4.compress(pickle.dumps(value))).decode()


def batch(episodes: list[int], first: int = 0, pack: bool = False, **more) -> dict:
    """A line; each observation is its number, each next one a half more."""
    number = np.arange(first, first + len(episodes), dtype=np.float32)[:, None]
    given = {"obs": number, "new_obs": number + 0.5}
    given = {key: packed(value) if pack else value.tolist() for key, value in given.items()}
    rest = {"actions": (0 * number).tolist(), "rewards": [1.0] * len(episodes), "eps_id": episodes}
    return {"type": "SampleBatch", **given, **rest, "dones": [False] * len(episodes), **more}


def write(tmp_path, *lines, name="out.json"):
    path = tmp_path / name
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path


def read(path):
    target = path.with_suffix(".hdf5")
    convert(str(path), target)
    return load_dataset(str(target))


@pytest.mark.parametrize("pack", [False, True])
def test_an_episode_goes_on_in_another_line(tmp_path, pack):
    path = write(tmp_path, batch([7, 7, 8], pack=pack), batch([8, 8, 7], 10, pack=pack))
    assert is_rllib(path)
    with pytest.raises(DataError, match="rl data convert"):
        load_dataset(str(path))
    data = read(path)
    assert data.obs[:, 0].tolist() == [0, 1, 12, 2, 10, 11]
    assert data.lengths().tolist() == [3, 3] and data.truncated.nonzero()[:, 0].tolist() == [2, 5]
    assert "'dones'" in data.about["read/dones"]


def test_a_folder_of_what_workers_wrote(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    write(folder, batch([7, 7, 8]), name="output-0.json")
    write(folder, batch([8, 8, 7], 10), name="output-1.json")
    with pytest.raises(DataError, match="rl data convert"):
        load_dataset(str(folder))
    convert(str(folder), tmp_path / "out.hdf5")
    data = load_dataset(str(tmp_path / "out.hdf5"))
    assert data.lengths().tolist() == [3, 3] and data.obs[:, 0].tolist() == [0, 1, 12, 2, 10, 11]


def test_ends_of_the_new_api(tmp_path):
    flags = {"terminateds": [False, True, False], "truncateds": [False, False, True]}
    data = read(write(tmp_path, batch([1, 1, 2], **flags), name="out.jsonl"))
    assert data.terminated.tolist() == [False, True, False] and data.truncated.tolist() == [
        False,
        False,
        True,
    ]
    assert not data.missing and "read/dones" not in data.about


def test_without_numbers_of_episodes_each_line_is_one(tmp_path):
    lines = [batch([0, 0, 0]), batch([0, 0], 10)]
    for line in lines:
        del line["eps_id"]
    assert read(write(tmp_path, *lines)).lengths().tolist() == [3, 2]


def test_next_observations_that_lead_into_the_next_episode_are_left_out(tmp_path):
    """RLlib shifts observations by a row, across ends, too."""
    line = batch([1, 1, 2, 2, 2], dones=[False, True, False, False, True])
    path = write(tmp_path, line | {"new_obs": [*line["obs"][1:], [9.0]]})
    lines = {line.topic: line for line in examine(locate(str(path)))}
    assert "left out" in lines["layout"].text and not lines["jumps"].bad
    assert read(path).next_known.tolist() == [True, False, True, True, False]


def test_one_policy_of_many(tmp_path):
    inner = batch([1, 1])
    line = {"type": "MultiAgentBatch", "count": 2, "policy_batches": {"default_policy": inner}}
    assert read(write(tmp_path, line)).rows == 2
    line["policy_batches"]["other"] = inner
    with pytest.raises(DataError, match=r"several policies \(default_policy, other\)"):
        convert(str(write(tmp_path, line)), tmp_path / "x.hdf5")


class Attack:
    def __reduce__(self):
        return os.mkdir, ("attacked",)


def test_a_packed_column_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path, batch([1, 1]) | {"obs": packed(Attack())})
    with pytest.raises(DataError, match=r"line 1, 'obs': names 'posix.mkdir'"):
        convert(str(path), tmp_path / "x.hdf5")
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"obs": "no base64"}, "cannot be unpacked"),
        ({"obs": base64.b64encode(b"nothing of LZ4").decode()}, "cannot be unpacked"),
        ({"obs": [[1.0]]}, "'obs' has 1 rows and 'actions' 2"),
        ({"actions": [[1.0], [1.0, 2.0]]}, "differ in length"),
        ({"actions": 3}, "no array with one row per step"),
    ],
)
def test_bad_lines_are_named(tmp_path, change, said):
    if isinstance(change.get("obs"), str):
        pytest.importorskip("lz4.frame")
    with pytest.raises(DataError, match=f"line 2.*{said}"):
        convert(str(write(tmp_path, batch([1, 1]), batch([2, 2]) | change)), tmp_path / "x.hdf5")


def test_a_packed_line_that_is_cut(tmp_path):
    text = packed(np.zeros((2, 1000)))
    short = base64.b64encode(base64.b64decode(text)[:-20]).decode()
    with pytest.raises(DataError, match=r"cut short|cannot be unpacked"):
        convert(str(write(tmp_path, batch([1, 1]) | {"obs": short})), tmp_path / "x.hdf5")


def test_without_lz4(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    with pytest.raises(DataError, match=r"LZ4. Install its reader with"):
        convert(str(write(tmp_path, batch([1, 1]) | {"obs": "BCJN"})), tmp_path / "x.hdf5")


def test_real_pendulums(tmp_path):
    pytest.importorskip("lz4.frame")
    path = public_file("rllib-pendulum.jsonl")
    found = {line.topic: line for line in examine(locate(str(path)))}
    assert "convert it with --ends truncated" in found["ends"].text and found["actions"].bad
    with pytest.raises(DataError, match="--clip_actions"):
        convert(str(path), tmp_path / "p.hdf5", env_id="Pendulum-v1")
    convert(str(path), tmp_path / "p.hdf5", env_id="Pendulum-v1", clip_actions=True, ends="truncated")
    bad = [line for line in examine(locate(str(tmp_path / "p.hdf5"))) if line.bad]
    assert [line.topic for line in bad] == ["observed"], "RLlib's filter scaled them"
    data = load_dataset(str(tmp_path / "p.hdf5"))
    assert data.episodes == 30 and data.rows == 30 * 199 and not data.terminated.any() and not data.missing
    assert data.spec.env_id == "Pendulum-v1" and data.spec.action_high == (2.0,)


def recorded(path, texts=None) -> None:
    """A table as RLlib's env runners write it: an id for each episode, observations packed row by row."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    obs = np.arange(14, dtype=np.float32).reshape(7, 2)
    texts = texts or [packed(row) for row in obs]
    columns = {
        "eps_id": ["b1", "b1", "b1", "a2", "a2", "a2"], "agent_id": [None] * 6, "obs": texts[:6],
        "actions": [0, 1, 0, 1, 1, 0], "rewards": [1.0] * 6, "new_obs": texts[1:],
        "terminateds": [False, False, True] + [False] * 3, "truncateds": [False] * 5 + [True],
        "action_dist_inputs": [[0.1, 0.2]] * 6,
    }  # fmt: skip
    parquet.write_table(pyarrow.table(columns), path)


@pytest.mark.parametrize("folder", [False, True])
def test_a_table_whose_observations_are_packed(tmp_path, folder):
    path = tmp_path / ("run-000001-00001" if folder else "a.parquet")
    if folder:
        path.mkdir()
    recorded(path / "0.parquet" if folder else path)
    with pytest.raises(DataError, match=r"'obs' is packed.*\n.*rl data convert"):
        load_dataset(str(path))
    lines = {line.topic: line for line in examine(locate(str(path)))}
    assert lines["layout"].text.startswith("an RLlib table of parquet") and "missing" not in lines
    convert(str(path), tmp_path / "a.hdf5")
    data = load_dataset(str(tmp_path / "a.hdf5"))
    assert data.lengths().tolist() == [3, 3] and data.obs[:, 0].tolist() == [0, 2, 4, 6, 8, 10]
    assert data.next_obs[:, 1].tolist() == [3, 5, 7, 9, 11, 13] and data.terminated.tolist()[2]
    assert data.truncated.nonzero()[:, 0].tolist() == [5] and data.spec.action_sizes == (2,)


def test_a_packed_row_of_a_table_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "a.parquet", [packed(Attack())] * 7)
    with pytest.raises(DataError, match=r"'obs', row 0: names 'posix.mkdir'"):
        convert(str(tmp_path / "a.parquet"), tmp_path / "x.hdf5")
    assert not (tmp_path / "attacked").exists()
    recorded(tmp_path / "a.parquet", [packed(np.zeros(1 + number % 2)) for number in range(7)])
    with pytest.raises(DataError, match="rows differ in shape"):
        convert(str(tmp_path / "a.parquet"), tmp_path / "x.hdf5")
