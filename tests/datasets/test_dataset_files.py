"""Reading data sets: every layout gives the same rows, and none crosses an episode."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest
import torch
from data_files import make_rows, write
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.datasets import check_env, load_dataset, read_header
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.arrays import write_file
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.datasets.rows.episode_rows import cut_every
from rl_lightning.errors import DataError
from rl_lightning.types import EnvSpec

FIELDS = {
    "obs": "observations",
    "action": "actions",
    "reward": "rewards",
    "next_obs": "next_observations",
    "terminated": "terminals",
    "truncated": "timeouts",
}


def same(data, arrays) -> None:
    for field, key in FIELDS.items():
        np.testing.assert_array_equal(getattr(data, field).numpy(), arrays[key], err_msg=key)


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    suffix=st.sampled_from([".hdf5", ".npz"]),
    continuous=st.booleans(),
)
def test_what_was_written_is_read_back(tmp_path_factory, lengths, seed, suffix, continuous):
    rng = np.random.default_rng(seed)
    arrays = make_rows(lengths, list(rng.random(len(lengths)) < 0.5))
    if not continuous:
        arrays["actions"] = rng.integers(0, 4, sum(lengths))
    metadata = {
        "env_id": "Some-v0",
        "seed": seed,
        "action_low": [-2.0, -1.0],
        "policies": [{"level": "x"}],
        "none": None,
    }
    if not continuous:
        metadata["action_sizes"] = [4]
        del metadata["action_low"]
    path = tmp_path_factory.mktemp("rows") / f"a{suffix}"
    write_file(path, Raw("", arrays, {"qpos": arrays["observations"]}, metadata))
    data = load_dataset(str(path))
    same(data, arrays)
    assert data.episode.tolist() == np.repeat(np.arange(len(lengths)), lengths).tolist()
    assert {key: data.about[key] for key in metadata if key != "none"} == {
        k: v for k, v in metadata.items() if k != "none"
    }
    assert data.lengths().tolist() == lengths and data.episodes == len(lengths)
    np.testing.assert_allclose(data.returns().sum(), arrays["rewards"].astype(np.float64).sum(), atol=1e-5)
    assert read_header(str(path))[0] == data.spec


def test_spec_and_types(tmp_path):
    arrays = make_rows([3, 2], [True, False])
    data = load_dataset(
        str(write(tmp_path / "a.hdf5", arrays, {"env_id": b"Hopper-v5", "ref_min": 0.0, "ref_max": 2.0}))
    )
    assert data.spec == EnvSpec(
        "Hopper-v5", (3,), action_shape=(2,), action_low=(-1.0, -1.0), action_high=(1.0, 1.0)
    )
    assert data.obs.dtype == data.reward.dtype == data.action.dtype == torch.float32
    assert data.terminated.dtype == torch.bool and data.episode.dtype == torch.int64
    assert data.reference.kind == "local" and data.reference.score(1.0) == 50.0
    assert len(data.sha256) == 64


def test_float64_and_column_rewards_and_gzip(tmp_path):
    arrays = make_rows([4, 4], [True, False])
    odd = {
        key: array.astype(np.float64) if array.dtype == np.float32 else array for key, array in arrays.items()
    }
    odd["rewards"], odd["terminals"] = odd["rewards"][:, None], odd["terminals"].astype(np.uint8)
    same(load_dataset(str(write(tmp_path / "a.hdf5", odd, compression="gzip"))), arrays)


def test_last_row_without_a_flag_is_a_cut(tmp_path):
    arrays = make_rows([3, 3], [True, False])
    arrays["timeouts"][-1] = False
    data = load_dataset(str(write(tmp_path / "a.hdf5", arrays)))
    assert data.truncated[-1] and data.about["read/last_episode"] == "unfinished"


def test_without_next_observations_rows_at_limits_are_dropped(tmp_path):
    arrays = make_rows([4, 1, 3, 2], [True, False, False, True])
    del arrays["next_observations"]
    data = load_dataset(str(write(tmp_path / "a.hdf5", arrays)))
    assert data.rows == 4 + 0 + 2 + 2 and data.episodes == 3
    assert data.terminated.nonzero()[:, 0].tolist() == [3, 7]
    assert torch.equal(data.next_known, ~data.terminated)
    known = data.next_known
    assert torch.equal(data.next_obs[known][:, 0], data.obs[known][:, 0])  # the same episode
    assert torch.equal(data.next_obs[known][:, 1], data.obs[known][:, 1] + 1)  # one step on
    assert torch.equal(data.next_obs[~known], data.obs[~known])
    assert data.episode.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    assert data.truncated.nonzero()[:, 0].tolist() == [5]
    said = "2 rows at time limits were dropped, 2 terminal rows have no next one"
    assert said in data.about["read/next_observations"]


def test_a_stated_limit_stands_for_timeouts(tmp_path):
    arrays = make_rows([1500, 700], [True, False])
    del arrays["timeouts"]
    data = load_dataset(str(write(tmp_path / "a.hdf5", arrays, {"max_episode_steps": 300})))
    assert data.lengths().tolist() == [300] * 5 + [300, 300, 100]
    assert "every 300 steps" in data.about["read/timeouts"]


def test_without_timeouts_a_file_is_refused_and_can_be_mended(tmp_path):
    arrays = make_rows([1500, 700], [True, False])
    del arrays["timeouts"]
    old, new = write(tmp_path / "a.hdf5", arrays), tmp_path / "b.hdf5"
    with pytest.raises(DataError, match=r"a\.hdf5: 'timeouts' is missing.*\n.*--max_episode_steps 1000"):
        load_dataset(str(old))
    with pytest.raises(DataError, match="'timeouts' is missing"):
        convert(str(old), new)
    assert not new.exists()
    assert [line.topic for line in examine(locate(str(old))) if line.bad] == ["ends"]
    convert(str(old), new, max_episode_steps=1000)
    assert load_dataset(str(new)).lengths().tolist() == [1000, 500, 700]
    with pytest.raises(DataError, match="of its own"):
        convert(str(new), tmp_path / "c.hdf5", max_episode_steps=1000)


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 7))
def test_cut_every_against_a_loop(flags, steps):
    count, expected = 0, []
    for flag in flags:
        count += 1
        expected.append(count % steps == 0 and not flag)
        count = 0 if flag else count
    assert cut_every(np.array(flags), steps).tolist() == expected


def test_aliases_and_other_formats(tmp_path):
    arrays = make_rows([3, 2], [True, False])
    ours = {field: arrays[key] for field, key in FIELDS.items()}
    np.savez(tmp_path / "a.npz", **ours)
    torch.save({key: torch.from_numpy(array) for key, array in ours.items()}, tmp_path / "a.pt")
    for name in ("a.npz", "a.pt"):
        same(load_dataset(str(tmp_path / name)), arrays)


def episodes_of(arrays, lengths):
    at = np.cumsum([0, *lengths])
    return [{key: array[a:b] for key, array in arrays.items()} for a, b in itertools.pairwise(at)]


def test_conversions(tmp_path):
    lengths = [3, 2]
    arrays = make_rows(lengths, [True, False])
    lists = {key: array.tolist() for key, array in arrays.items()}
    steps = [{key: values[i] for key, values in lists.items()} for i in range(5)]
    contents = {
        "dict.json": lists,
        "steps.json": steps,
        "dict.pkl": arrays,
        "episodes.pickle": episodes_of(arrays, lengths),
    }
    for name, content in contents.items():
        source, target = tmp_path / name, tmp_path / f"{name}.hdf5"
        if name.endswith(".json"):
            source.write_text(json.dumps(content))
        else:
            source.write_bytes(pickle.dumps(content, protocol=2 if name == "dict.pkl" else 5))
        path, rows, dropped = convert(str(source), target)
        assert (path, rows, dropped) == (target, 5, 0)
        same(load_dataset(str(target)), arrays)
        assert load_dataset(str(target)).about["converted_from"] == name
    convert(str(target), tmp_path / "back.npz")
    same(load_dataset(str(tmp_path / "back.npz")), arrays)
    with pytest.raises(DataError, match="is there already"):
        convert(str(target), tmp_path / "back.npz")


def test_conversion_rescales_actions_and_leaves_out_bad_rows(tmp_path):
    arrays = make_rows([4, 3], [True, False])
    arrays["observations"][1, 2] = np.nan
    arrays["actions"] *= 2
    source = write(tmp_path / "a.hdf5", arrays, {"env_id": "Some-v0"})
    _, rows, dropped = convert(str(source), tmp_path / "b.hdf5", bounds=(-2, 2), leave_out_bad=True)
    data = load_dataset(str(tmp_path / "b.hdf5"))
    assert (rows, dropped, data.episodes) == (6, 1, 3) and data.truncated[0]
    np.testing.assert_allclose(data.action[0].numpy(), arrays["actions"][0] / 2, atol=1e-6)
    assert data.spec.action_high == (2.0, 2.0)


def test_infos_survive_a_conversion(tmp_path):
    arrays = make_rows([3], [False])
    raw = Raw("", arrays, {"qpos": np.arange(6, dtype=np.float32).reshape(3, 2)})
    source = write_hdf5(tmp_path / "a.hdf5", raw)
    convert(str(source), tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as file:
        np.testing.assert_array_equal(file["infos/qpos"], raw.infos["qpos"])


def test_check_env():
    stored = EnvSpec("A-v0", (3,), action_shape=(2,))
    check_env("x", stored, stored)
    for wrong in (stored._replace(obs_shape=(4,)), stored._replace(action_shape=(1,))):
        with pytest.raises(DataError, match="recorded in another env"):
            check_env("local/x", stored, wrong)
    discrete = EnvSpec("B-v0", (3,), action_kind="discrete", action_sizes=(4,))
    with pytest.raises(DataError, match="action number 3"):
        check_env("x", discrete, discrete._replace(action_sizes=(2,)))


def test_peek_reads_no_rows(tmp_path):
    arrays = make_rows([3, 2], [True, False])
    path = write(tmp_path / "a.hdf5", arrays, {"env_id": "Hopper-v5", "max_episode_steps": 10})
    spec, about = read_header(str(path))
    assert spec == load_dataset(str(path)).spec and about["rows"] == 5 and spec.max_episode_steps == 10


def test_constant_observations_of_one_step_episodes_are_no_teleports(tmp_path):
    """A bandit: every next observation is every other one."""
    arrays = make_rows([1] * 50, [True] * 50)
    for key in ("observations", "next_observations"):
        arrays[key] = np.ones((50, 3), np.float32)
    found = examine(locate(str(write(tmp_path / "a.hdf5", arrays))))
    assert not [line for line in found if line.bad], found
    arrays = make_rows([1] * 50, [True] * 50)  # contexts that do differ, and lead to one another
    arrays["next_observations"] = np.roll(arrays["observations"], -1, 0)
    found = examine(locate(str(write(tmp_path / "b.hdf5", arrays))))
    assert [line.topic for line in found if line.bad] == ["teleports"]
