"""robomimic's HDF5, rebuilt as its documentation has it."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest

from rl_lightning.analysis.dataset_tables import check_dataset
from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.errors import DataError

LENGTHS = {"demo_0": 4, "demo_2": 3, "demo_10": 2}
ENV = {"env_name": "Lift", "env_type": 1, "env_kwargs": {"robots": ["Panda"]}}


def write(path, pictures: bool = False, following: bool = True, rewards: bool = True):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["total"] = sum(LENGTHS.values())
        data.attrs["env_args"] = json.dumps(ENV)
        for number, (name, steps) in enumerate(LENGTHS.items()):
            demo = data.create_group(name)
            demo.attrs["num_samples"] = steps
            demo["actions"] = rng.uniform(-1, 1, (steps, 7))
            demo["states"] = rng.normal(size=(steps, 32))
            if rewards:
                demo["rewards"] = np.eye(steps)[-1]
                demo["dones"] = np.eye(steps, dtype=int)[-1]
            for group, shift in (("obs", 0), *((("next_obs", 1),) if following else ())):
                demo[f"{group}/robot0_eef_pos"] = (
                    np.full((steps, 3), number) + np.arange(steps)[:, None] + shift
                )
                demo[f"{group}/object"] = rng.normal(size=(steps, 10))
                if pictures:
                    demo[f"{group}/agentview_image"] = np.zeros((steps, 8, 8, 3), np.uint8)
        file["mask/train"] = np.array([b"demo_0", b"demo_10"])
        file["mask/valid"] = np.array([b"demo_2"])
    return str(path)


def test_demonstrations_in_order_of_their_numbers(tmp_path):
    path = write(tmp_path / "lift.hdf5", pictures=True)
    data = load_dataset(path)
    assert data.lengths().tolist() == [4, 3, 2] and data.obs.shape == (9, 13) and data.action.shape == (9, 7)
    assert data.obs[:, 10].tolist() == [0, 1, 2, 3, 1, 2, 3, 2, 3], "object stands before robot0_eef_pos"
    assert data.next_obs[:, 10].tolist() == [1, 2, 3, 4, 2, 3, 4, 3, 4]
    assert data.terminated.nonzero()[:, 0].tolist() == [3, 6, 8] and "'dones'" in data.about["read/dones"]
    assert data.about["robomimic_env"] == "Lift" and not data.missing
    assert read_header(path)[0] == data.spec
    text, _ = check_dataset(path)
    assert "robomimic: 3 demonstrations, observations object, robot0_eef_pos; without agentview_image" in text


def test_observations_that_are_told(tmp_path):
    path = write(tmp_path / "lift.hdf5")
    convert(path, tmp_path / "a.hdf5", columns="observations=robot0_eef_pos")
    assert load_dataset(str(tmp_path / "a.hdf5")).obs.shape == (9, 3)
    for told, said in (
        ("observations=eyes", "no observation 'eyes'"),
        ("actions=object", "observations alone"),
    ):
        with pytest.raises(DataError, match=said):
            convert(path, tmp_path / "b.hdf5", columns=told)


def test_a_mask(tmp_path):
    path = write(tmp_path / "lift.hdf5")
    convert(path, tmp_path / "train.hdf5", mask="train")
    data = load_dataset(str(tmp_path / "train.hdf5"))
    assert data.lengths().tolist() == [4, 2] and data.recording.unique().tolist() == [0, 2]
    with pytest.raises(DataError, match=r"no mask 'test' \(it has train, valid\)"):
        convert(path, tmp_path / "b.hdf5", mask="test")


def test_demonstrations_alone(tmp_path):
    data = load_dataset(write(tmp_path / "lift.hdf5", following=False, rewards=False))
    assert data.missing == ("rewards", "terminals") and data.rows == 9
    assert data.next_known.tolist() == [True] * 3 + [False] + [True] * 2 + [False] + [True, False]


def change(path, what):
    with h5py.File(path, "a") as file:
        what(file)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (lambda file: file["data/demo_2"].attrs.modify("num_samples", 9), "demo_2 says 9 steps and has 3"),
        (lambda file: file["data/demo_2/obs"].pop("object"), "demo_2/obs has no 'object'"),
        (lambda file: file["data/demo_0"].pop("obs"), "have no 'obs'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, what, said):
    path = write(tmp_path / "lift.hdf5", following=False)
    change(path, what)
    with pytest.raises(DataError, match=said):
        load_dataset(path)


def test_links_are_not_followed(tmp_path):
    path = write(tmp_path / "lift.hdf5")
    other = write(tmp_path / "other.hdf5")

    def link(file):
        file["data/demo_3"] = h5py.ExternalLink(other, "data/demo_0")

    change(path, link)
    with pytest.raises(DataError, match="not followed"):
        load_dataset(path)
