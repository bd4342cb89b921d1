"""Lists of episodes as DAPG and MJRL pickle them: read by the safe converter, never by a fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from public_files import public_file

from rl_lightning.datasets import load_dataset
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.errors import DataError


def demonstrations(lengths=(4, 3), width: int = 39, **more) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {
            "actions": rng.uniform(-1.2, 1.2, (steps, 28)),
            "rewards": rng.normal(size=steps),
            "observations": rng.normal(size=(steps, width)),
            "init_state_dict": {"door_body_pos": np.zeros(3), "qpos": np.zeros(30), "qvel": np.zeros(30)},
            **more,
        }
        for steps in lengths
    ]


def pickled(tmp_path, value):
    path = tmp_path / "demos.pickle"
    path.write_bytes(pickle.dumps(value, 2))
    return path


def test_dapg_demonstrations(tmp_path):
    path, given = pickled(tmp_path, demonstrations()), demonstrations()
    with pytest.raises(DataError, match="rl data convert"):
        load_dataset(str(path))
    found = {line.topic: line for line in examine(locate(str(path)))}
    assert found["layout"].text == "DAPG demonstrations: a list of 2 episodes"
    assert "no terminals" in found["missing"].text and "--ends truncated" in found["missing"].text
    assert not found["actions"].bad and "clipped" in found["actions"].text
    convert(str(path), tmp_path / "demos.hdf5")
    data = load_dataset(str(tmp_path / "demos.hdf5"))
    assert data.missing == ("terminals",) and data.spec.env_id == "AdroitHandDoor-v1"
    assert data.lengths().tolist() == [4, 3], "the last action of a demonstration is learned, too"
    assert data.next_known.tolist() == [True, True, True, False, True, True, False]
    np.testing.assert_allclose(data.action[:4].numpy(), given[0]["actions"].clip(-1, 1), rtol=1e-6)
    assert data.truncated.nonzero()[:, 0].tolist() == [3, 6]


@pytest.mark.parametrize("ends", ["truncated", "terminated"])
def test_whoever_knows_the_ends_says_them(tmp_path, ends):
    path = pickled(tmp_path, demonstrations())
    convert(str(path), tmp_path / "demos.hdf5", ends=ends)
    data = load_dataset(str(tmp_path / "demos.hdf5"))
    assert not data.missing and bool(data.terminated.any()) == (ends == "terminated")
    with pytest.raises(DataError, match="has 'terminals' of its own"):
        convert(str(tmp_path / "demos.hdf5"), tmp_path / "again.hdf5", ends=ends)


def test_mjrl_paths_say_how_each_ended(tmp_path):
    paths = [
        {"observations": np.zeros((3, 2)), "actions": np.zeros((3, 1)), "rewards": np.ones(3),
         "agent_infos": {}, "env_infos": {}, "terminated": flag}
        for flag in (True, False)
    ]  # fmt: skip
    convert(str(pickled(tmp_path, paths)), tmp_path / "paths.hdf5")
    data = load_dataset(str(tmp_path / "paths.hdf5"))
    assert data.about["converted_layout"].startswith("MJRL paths") and not data.missing
    assert data.terminated.nonzero()[:, 0].tolist() == [2]


def test_episodes_by_name(tmp_path):
    convert(str(pickled(tmp_path, dict(zip("ab", demonstrations(), strict=True)))), tmp_path / "demos.hdf5")
    assert load_dataset(str(tmp_path / "demos.hdf5")).episodes == 2


def test_the_real_demonstrations_of_a_door(tmp_path):
    path = public_file("dapg-door-v0.pickle")
    assert {line.topic for line in examine(locate(str(path))) if line.bad} == set()
    convert(str(path), tmp_path / "door.hdf5")
    data = load_dataset(str(tmp_path / "door.hdf5"))
    assert (data.rows, data.episodes, data.missing) == (6729, 25, ("terminals",))
    assert data.obs.shape[1] == 39 and data.spec.action_shape == (28,)
    assert data.returns().mean().item() == pytest.approx(794.1, abs=0.1)
