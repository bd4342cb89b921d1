"""The made-up clinic: what its generator promises of the synthetic data."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from rl_lightning.behaviors.clinic_rule import clinician
from rl_lightning.cli import main
from rl_lightning.datasets import load_dataset
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.toys.clinic import REGIMES, SIGNALS
from rl_lightning.rollout.evaluate import evaluate


def returns(act, episodes: int = 48) -> float:
    envs = make_envs(EnvConfig("rl/Clinic-v0"), 16)
    draw = torch.Generator().manual_seed(0)
    return float(np.mean([e.episode_return for e in evaluate(act, lambda n: (), envs, episodes, 0, draw)]))


def test_there_are_twelve_signals_one_action_and_three_regimes() -> None:
    envs = make_envs(EnvConfig("rl/Clinic-v0"), 1)
    assert envs.env_spec.obs_shape == (12,) and envs.env_spec.action_shape == (1,)
    assert (envs.env_spec.action_low, envs.env_spec.action_high) == ((2.0,), (9.0,))
    assert len(SIGNALS) == 12 and len(REGIMES) == 3 and envs.env_spec.max_episode_steps == 48


def test_clinicians_do_better_than_either_extreme_and_not_as_well_as_one_can() -> None:
    def always(level: float):
        return lambda obs, carry, generator, mask=None: (torch.full((len(obs), 1), level), carry)

    ruled = returns(clinician)
    assert ruled > returns(always(-1.0)) + 5.0 and ruled > returns(always(1.0)) + 5.0
    assert returns(always(0.0)) > ruled, "there is something to learn"


def test_its_rows_say_that_they_are_synthetic_and_name_no_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    assert main(["data", "make", "local/clinic-scripted", "--rows", "480"]) == 0
    rows = load_dataset("local/clinic-scripted")
    assert rows.spec.env_id == "" and rows.spec.action_low == (2.0,) and not rows.terminated.any()
    assert "synthetic" in str(rows.about["source"])
    with h5py.File(tmp_path / "local" / "clinic-scripted.hdf5") as file:
        assert "env_id" not in file["metadata"]
