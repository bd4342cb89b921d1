"""Data without rewards and terminals: imitated as they are, refused by what learns values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from data_files import make_rows, write

from rl_lightning.algorithms.diffusion.behavior_diffusion import BehaviorDiffusion
from rl_lightning.algorithms.diffusion.diffusion_policy import DiffusionPolicy
from rl_lightning.algorithms.models.density import Density
from rl_lightning.algorithms.models.dynamics import Dynamics
from rl_lightning.algorithms.offline.bc import BC
from rl_lightning.algorithms.offline.iql import IQL
from rl_lightning.analysis.dataset_tables import check_dataset, describe_dataset
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datamodules.window_data import WindowData
from rl_lightning.datasets import load_dataset, read_header
from rl_lightning.datasets.rows.reward_tuning import ReturnRange
from rl_lightning.datasets.summary import describe
from rl_lightning.errors import DataError


@pytest.fixture
def bare(tmp_path) -> str:
    """Observations, actions and ends."""
    rows = make_rows([20, 15, 25], [False] * 3)
    return str(
        write(tmp_path / "demos.hdf5", {key: rows[key] for key in ("observations", "actions", "timeouts")})
    )


def test_what_is_missing_is_told(bare):
    data, (spec, about) = load_dataset(bare), read_header(bare)
    assert data.missing == ("rewards", "terminals") and data.rows == 60 and about["rows"] == 60
    assert spec == data.spec and describe(Path(bare))["note"] == "no rewards and no terminals"
    text, sound = check_dataset(bare)
    assert sound and "no rewards: BC and diffusion policy imitate it" in text and "returns" not in text
    assert "mean_return  -" in describe_dataset(bare)


def trained(module, data):
    data.check_model(module)
    data.connect(module)
    return module.training_step(data.next_block(), 0)


@pytest.mark.parametrize("kind", [BC, BehaviorDiffusion])
def test_who_imitates_learns_from_it(bare, kind):
    data = OfflineData(bare, batch_size=8, updates_per_block=2)
    trained(kind(data.spec), data)


def test_windows_of_it_train_a_diffusion_policy(bare):
    data = WindowData(bare, batch_size=8, updates_per_block=2)
    trained(DiffusionPolicy(data.spec), data)


def test_density_of_what_is_there(bare):
    data = OfflineData(bare)
    data.check_model(Density(data.spec))
    with pytest.raises(DataError, match="no 'rewards'"):
        data.check_model(Density(data.spec, density_of="action_reward"))


def test_who_learns_values_says_what_is_missing(bare, tmp_path):
    data = OfflineData(bare)
    for kind in (IQL, Dynamics):
        with pytest.raises(DataError, match=f"no 'rewards', which {kind.__name__} learns from"):
            data.check_model(kind(data.spec))
    for wrong in ({"top_fraction": 0.5}, {"reward_tuning": ReturnRange()}):
        with pytest.raises(DataError, match="no 'rewards'"):
            OfflineData(bare, **wrong)
    rows = make_rows([5, 5], [False] * 2)
    del rows["terminals"]
    data = OfflineData(str(write(tmp_path / "paid.hdf5", rows)))
    data.check_model(Dynamics(data.spec))
    with pytest.raises(DataError, match="--ends truncated"):
        data.check_model(IQL(data.spec))


def test_in_memory_too():
    rows = make_rows([6, 5], [False] * 2)
    data = OfflineData({key: rows[key] for key in ("observations", "actions", "next_observations")})
    assert data.dataset.missing == ("rewards", "terminals") and data.dataset.episodes == 2
    assert np.isfinite(data.dataset.reward.numpy()).all()
