"""Adroit's envs pay what D4RL's pay; distances are taken from the observations, which upstream has right."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("gymnasium_robotics")

import gymnasium
import h5py

from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.envs.make import EnvConfig, make_env
from rl_lightning.envs.registry import build_base

# where an observation has the way from the palm to what it shall grasp
REACH = {
    "Door": lambda obs: obs[35:38],
    "Hammer": lambda obs: obs[33:36] - obs[36:39],
    "Relocate": lambda obs: obs[30:33],
}


def rewards(env, steps=30):
    """(observation, reward) along one episode of fixed actions."""
    rng = np.random.default_rng(0)
    env.reset(seed=3)
    found = [
        env.step(rng.uniform(-1, 1, env.action_space.shape).astype(np.float32))[:2] for _ in range(steps)
    ]
    env.close()
    return found


@pytest.mark.parametrize("task", REACH)
def test_the_hand_is_paid_for_coming_near(task):
    build_base(f"AdroitHand{task}-v1", {}, None, None).close()  # registers the suite
    ours = rewards(build_base(f"AdroitHand{task}-v1", {}, None, None))
    theirs = rewards(gymnasium.make(f"AdroitHand{task}-v1"))
    for (obs, reward), (same, upstream) in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(obs, same)
        far = float(np.linalg.norm(REACH[task](obs)))
        assert far > 0.01
        # D4RL has -0.1 far where upstream has +0.1 far
        assert reward == pytest.approx(float(np.squeeze(upstream)) - 0.2 * far, abs=1e-9)


@pytest.mark.parametrize("task", [*REACH, "Pen"])
def test_sparse_rewards_and_the_pen_stay(task):
    name = f"AdroitHand{task}{'' if task == 'Pen' else 'Sparse'}-v1"
    ours = rewards(build_base(name, {}, None, None), 10)
    theirs = rewards(gymnasium.make(name), 10)
    assert [reward for _, reward in ours] == [float(np.squeeze(reward)) for _, reward in theirs]


def test_the_correction_lies_inside_the_record():
    """make_env takes the time limit off the outside: the corrected reward must be what is recorded."""
    env = make_env(EnvConfig(id="AdroitHandDoor-v1"))
    env.reset(seed=0)
    reward = env.step(np.zeros(28, np.float32))[1]
    assert reward < 0
    env.close()


def drop(env):
    """Steps of a hand that jerks until the episode ends."""
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for step in range(1, 250):
        _, _, terminated, truncated, _ = env.step(np.sign(rng.normal(size=24)).astype(np.float32))
        if terminated or truncated:
            return step, bool(terminated)
    return None


def test_d4rls_pen_ends_when_it_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path))
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(200, 45)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (200, 24)).astype(np.float32),
        "rewards": rng.normal(size=200).astype(np.float32),
        "terminals": np.zeros(200, bool),
        "timeouts": np.arange(200) % 100 == 99,
    }
    with h5py.File(tmp_path / "pen_human-v1.hdf5", "w") as file:
        for key, array in arrays.items():
            file[key] = array
    data = OfflineData("d4rl/pen-human-v1")
    assert data.spec.max_episode_steps == 100
    ours, theirs = make_env(data.env), make_env(EnvConfig(id="AdroitHandPen-v1"))
    steps, dropped = drop(ours)
    assert dropped and steps < 100 and drop(theirs) == (200, False)


def test_the_librarys_warning_is_not_printed():
    code = "import rl_lightning.envs.suites.robotics"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Adroit" not in done.stderr + done.stdout
