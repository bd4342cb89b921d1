"""Bounds of actions come from the env or the user, per dimension, and never from the sample."""

from __future__ import annotations

import numpy as np
import pytest
from data_files import make_rows, write

from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.data_files import locate
from rl_lightning.datasets.formats.convert import convert
from rl_lightning.datasets.rows.checks import examine
from rl_lightning.errors import DataError


def rows(action_dim=1, scale=1.999):
    arrays = make_rows([4, 3], [True, False], action_dim=action_dim)
    arrays["actions"] = np.linspace(-scale, scale, 7 * action_dim, dtype=np.float32).reshape(7, action_dim)
    return arrays


@pytest.mark.parametrize("metadata", [{}, {"env_id": "Pendulum-v1"}])
def test_no_bound_is_suggested_from_the_sample(tmp_path, metadata):
    path = write(tmp_path / "a.hdf5", rows(), metadata)
    with pytest.raises(DataError) as caught:
        load_dataset(str(path))
    text = str(caught.value)
    assert len(text.splitlines()) == 3 and f"--env {metadata.get('env_id', 'ENV_ID')}" in text
    assert "--action_low L0 --action_high H0" in text and "_low -1.999" not in text


def test_bounds_of_the_env(tmp_path):
    """Narrow data of Pendulum: 1.5 of 2 is 0.75, not 1."""
    path, arrays = write(tmp_path / "a.hdf5", rows(scale=1.5)), rows(scale=1.5)
    convert(str(path), tmp_path / "b.hdf5", env_id="Pendulum-v1")
    data = load_dataset(str(tmp_path / "b.hdf5"))
    np.testing.assert_allclose(data.action.numpy(), arrays["actions"] / 2, atol=1e-6)
    assert data.spec.action_high == (2.0,) and data.spec.env_id == "Pendulum-v1"
    convert(str(tmp_path / "b.hdf5"), tmp_path / "c.hdf5", env_id="Pendulum-v1")
    assert (load_dataset(str(tmp_path / "c.hdf5")).action == data.action).all(), "mapped once"
    with pytest.raises(DataError, match="has 2 actions, Pendulum-v1 has 1"):
        convert(str(write(tmp_path / "d.hdf5", rows(2))), tmp_path / "e.hdf5", env_id="Pendulum-v1")


def test_bounds_per_dimension(tmp_path):
    arrays = rows(2, scale=1.0)
    arrays["actions"] *= [2, 5]
    path = write(tmp_path / "a.hdf5", arrays)
    convert(str(path), tmp_path / "b.hdf5", bounds=([-2, -5], [2, 10]))
    data = load_dataset(str(tmp_path / "b.hdf5"))
    expected = np.stack([arrays["actions"][:, 0] / 2, (arrays["actions"][:, 1] + 5) / 7.5 - 1], 1)
    np.testing.assert_allclose(data.action.numpy(), expected, atol=1e-6)
    assert data.spec.action_low == (-2.0, -5.0) and data.spec.action_high == (2.0, 10.0)
    with pytest.raises(DataError, match="in dimension 1, beyond -2 to 2"):
        convert(str(path), tmp_path / "c.hdf5", bounds=(-2, 2))
    for bad, word in [
        (([-2, -5, 1], 2), "or 2 of them"),
        ((float("nan"), 2), "finite"),
        ((-2, float("inf")), "finite"),
        (([-2, 5], [2, -5]), "in dimension 1 the bounds are 5 and -5"),
    ]:
        with pytest.raises(DataError, match=word):
            convert(str(path), tmp_path / "c.hdf5", bounds=bad)
    assert not (tmp_path / "c.hdf5").exists()


@pytest.mark.parametrize(
    ("low", "high"), [([1.0, -1.0], [-1.0, 1.0]), ([np.nan, -1.0], [1.0, 1.0]), ([-1.0, 1.0], [1.0, 1.0])]
)
def test_bounds_that_are_none_are_refused_by_every_reader(tmp_path, low, high):
    path = str(write(tmp_path / "a.hdf5", rows(2, 1.0), {"action_low": low, "action_high": high}))
    for read in (load_dataset, read_header, lambda name: examine(locate(name))):
        with pytest.raises(DataError, match=r"'metadata/action_low'.*the low one must be a number below"):
            read(path)


@pytest.mark.parametrize("metadata", [{}, {"action_sizes": 10**12}])
def test_continuous_actions_in_whole_numbers(tmp_path, metadata):
    arrays = rows() | {"actions": np.full(7, 10**9)}
    path = str(write(tmp_path / "a.hdf5", arrays, metadata))
    for read in (load_dataset, read_header, lambda name: examine(locate(name))):
        with pytest.raises(DataError, match=r"whole numbers up to .*\n.*write them as floats"):
            read(path)
