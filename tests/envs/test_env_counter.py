"""Rows that cross an episode give themselves away on the counting env."""

import numpy as np
import pytest

from rl_lightning.envs.make import EnvConfig, make_envs


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_no_row_crosses_an_episode(vectorization, ending):  # T1, T2
    kwargs, limit = ({"episode_length": 5, "jitter": 2}, None) if ending == "terminated" else ({}, 5)
    envs = make_envs(EnvConfig("rl/Counter-v0", kwargs, limit), 3, vectorization)
    obs = envs.reset(seed=10)[0].copy()
    assert obs.tolist() == [[10000, 0], [11000, 0], [12000, 0]]
    ends = 0
    for _ in range(23):
        following, reward, terminated, truncated, infos = envs.step(np.zeros(3, np.int64))
        ended = terminated | truncated
        next_obs = following.copy()
        if ended.any():
            next_obs[ended] = infos["final_obs"][ended]
        assert (next_obs[:, 0] == obs[:, 0]).all()
        assert (next_obs[:, 1] == obs[:, 1] + 1).all()
        assert (reward == next_obs[:, 1]).all() and (reward > 0).all()
        assert (following[ended, 1] == 0).all() and (following[ended, 0] == obs[ended, 0] + 1).all()
        assert not (truncated if ending == "terminated" else terminated).any()
        ends += ended.sum()
        obs = following.copy()
    assert ends >= 12
    envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_observations_are_one_reused_array_but_final_ones_are_not(vectorization):  # T5
    envs = make_envs(EnvConfig("rl/Counter-v0", {"episode_length": 2}), 2, vectorization)
    first, _ = envs.reset(seed=0)
    second, *_ = envs.step(np.zeros(2, np.int64))
    assert np.shares_memory(first, second), "documented: the caller copies what it keeps"
    *_, infos = envs.step(np.zeros(2, np.int64))
    kept = infos["final_obs"].copy()
    envs.step(np.zeros(2, np.int64))
    np.testing.assert_array_equal(infos["final_obs"], kept)
    envs.close()
