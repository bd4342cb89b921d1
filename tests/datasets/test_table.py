"""CSV and parquet tables, RLlib's among them; which column is what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_files import make_rows
from public_files import public_file

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.layouts.column_map import map_columns, parse_columns
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.errors import ConfigError, DataError

CSV = """obs_0,obs_1,action_0,reward,terminated,episode
0.5,1,0.1,1,False,a
0.6,1,0.2,1,True,a
0.7,2,0.3,0,False,b
0.8,2,0.4,0,False,b
"""


def csv(tmp_path, text: str = CSV):
    path = tmp_path / "t.csv"
    path.write_text(text)
    return str(path)


def test_names_tell_what_columns_are(tmp_path):
    data = load_dataset(csv(tmp_path))
    np.testing.assert_allclose(data.obs.numpy(), [[0.5, 1], [0.6, 1], [0.7, 2]], rtol=1e-6)
    assert data.terminated.tolist() == [False, True, False] and data.lengths().tolist() == [2, 1]
    assert not data.missing and data.action.shape == (3, 1)
    layout = next(line.text for line in examine(locate(csv(tmp_path))) if line.topic == "layout")
    assert layout == "a CSV table of 6 columns"


def test_columns_that_are_told(tmp_path):
    path = csv(tmp_path, "x,y,push,won,trial,t\n1,2,0.5,0,9,1\n3,4,0.5,1,9,0\n5,6,0.5,0,8,0\n7,8,0.5,0,8,1\n")
    with pytest.raises(DataError, match=r"no column is known to hold 'observations'.*\n.*--columns"):
        load_dataset(path)
    told = "observations=x,y actions=push rewards=won episode=trial order=t"
    convert(path, tmp_path / "t.hdf5", columns=told, ends="truncated")
    data = load_dataset(str(tmp_path / "t.hdf5"))
    assert data.obs.tolist() == [[3, 4], [5, 6]] and data.reward.tolist() == [1, 0] and not data.missing


def test_a_map_in_words():
    assert parse_columns("obs=0-2,5; actions=a_* episode=trial") == {
        "observations": ["0", "1", "2", "5"],
        "actions": ["a_*"],
        "episode": ["trial"],
    }
    for wrong in ("obs", "speed=x", "obs="):
        with pytest.raises(ConfigError, match="--columns takes"):
            parse_columns(wrong)
    mapped = map_columns("f", ["a_1", "a_2", "x"], {"actions": ["a_*"], "observations": ["x"]})
    assert mapped.columns == {"actions": ["a_1", "a_2"], "observations": ["x"]}
    with pytest.raises(DataError, match=r"no column 'z' \(it has x\)"):
        map_columns("f", ["x"], {"observations": ["z"]})


def test_names_with_parts():
    names = ["observation.state", "next_obs[0]", "next_obs[1]", "action/x", "done", "eps_id", "t", "reward"]
    mapped = map_columns("f", names)
    assert mapped.columns == {
        "observations": ["observation.state"],
        "next_observations": ["next_obs[0]", "next_obs[1]"],
        "actions": ["action/x"],
        "dones": ["done"],
        "rewards": ["reward"],
    }
    assert (mapped.episode, mapped.order) == ("eps_id", "t")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("obs_0,action_0\n1,2,3\n", "line 2 has 3 values, its first line 2 names"),
        ("obs_0,obs_0,action_0\n1,2,3\n", "the same name"),
        ("obs_0,action_0\nleft,2\n", "'observations' is text"),
        ('obs_0,action_0\n"1,2\n', "not CSV"),
        ("", "no column is known"),
        ("obs_0,action_0,timeout\n1,nan,0\n1,1,1\n", "NaN"),
    ],
)
def test_bad_tables_are_named(tmp_path, text, said):
    with pytest.raises(DataError, match=said):
        load_dataset(csv(tmp_path, text))


def parquet(tmp_path, columns: dict):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def test_parquet_with_lists(tmp_path):
    rows = make_rows([4, 3], [True, False])
    columns = {key: rows[key].tolist() for key in ("observations", "actions", "rewards", "terminals")}
    data = load_dataset(parquet(tmp_path, columns | {"episode": ["a"] * 4 + ["b"] * 3}))
    assert data.rows == 6 and data.terminated.nonzero()[:, 0].tolist() == [3]
    np.testing.assert_allclose(data.action.numpy(), rows["actions"][:6], rtol=1e-6)


def test_a_folder_of_parquet(tmp_path):
    for number in range(2):
        columns = {
            "eps_id": [number] * 3,
            "obs": [[0.0, 1.0]] * 3,
            "actions": [0, 1, 0],
            "rewards": [1.0] * 3,
        }
        Path(parquet(tmp_path, columns)).rename(tmp_path / f"part-{number}.parquet")
    data = load_dataset(str(tmp_path))
    assert (
        data.lengths().tolist() == [3, 3]
        and data.about["read/layout"] == "an RLlib table of parquet in 2 files"
    )


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"obs": [[1.0], [1.0, 2.0]], "action": [1.0, 2.0]}, "rows of 'obs' differ in length"),
        ({"obs": [1.0, None], "action": [1.0, 2.0]}, "'obs' is empty in 1 rows"),
        ({"item": [b"x"]}, "output_write_episodes=False"),
        ({"obs": ["packed", "packed"], "action": [1.0, 2.0]}, "'observations' is text"),
    ],
)
def test_bad_parquet(tmp_path, columns, said):
    with pytest.raises(DataError, match=said):
        load_dataset(parquet(tmp_path, columns))


def test_damaged_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    path = parquet(tmp_path, {"obs": [1.0] * 100, "action": [1.0] * 100})
    whole = Path(path).read_bytes()
    for keep in (0, 10, len(whole) // 2, len(whole) - 3):
        Path(path).write_bytes(whole[:keep])
        with pytest.raises(DataError, match="damaged, cut short or not parquet"):
            load_dataset(path)


def test_cells_that_stand_for_very_many(tmp_path, monkeypatch):
    from rl_lightning.datasets.formats import memory_budget

    path = parquet(tmp_path, {"obs": [0.0] * 100_000, "action": [0.0] * 100_000})
    monkeypatch.setattr(memory_budget, "SHARE", 1e-5)
    with pytest.raises(DataError, match="more than half of the free memory"):
        load_dataset(path)


def test_without_pyarrow(tmp_path, monkeypatch):
    import sys

    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match="Install it with"):
        load_dataset(str(tmp_path / "t.parquet"))


def test_a_real_cartpole():
    pytest.importorskip("pyarrow")
    data = load_dataset(str(public_file("rllib-cartpole.parquet")))
    assert data.rows == 21 and data.spec.action_sizes == (2,) and data.next_known.all()
    assert (data.next_obs[:-1] == data.obs[1:]).all() and data.truncated.nonzero()[:, 0].tolist() == [20]
