"""Worker processes play the same game as this one."""

import numpy as np
import pytest
from env_cases import CASES, assert_equal_runs, play

from rl_lightning.envs.make import make_envs


@pytest.mark.parametrize("name", ["cartpole", "pendulum", "hopper", "masked", "atari", "minigrid"])
def test_async_equals_sync_bit_for_bit(name):
    runs = []
    for vectorization in ("sync", "async"):
        envs = make_envs(CASES[name], 2, vectorization)
        runs.append(play(envs, 18))
        envs.close()
    assert_equal_runs(*runs)


def test_methods_reach_the_outermost_wrapper():
    envs = make_envs(CASES["counter"], 2, "async")
    envs.reset(seed=0)
    envs.step(np.zeros(2, np.int64))
    assert envs.call("length") == (1, 1)
    assert envs.call_each("get_wrapper_attr", ["index", "env_id"]) == (0, "rl/Counter-v0")
    envs.close()
