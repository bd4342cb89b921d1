"""The quick space has the members of gymnasium's, and is put only where that one stood."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl_lightning.envs.make import EnvConfig, make_env
from rl_lightning.envs.quick_discrete import QuickDiscrete, quicken


@pytest.mark.parametrize("start", [0, -2, 3])
def test_members_are_gymnasiums(start):
    plain, quick = spaces.Discrete(3, start=start), QuickDiscrete(3, start=start)
    asked = [*range(-6, 9), 2**70, True, 1.0, None, "1", np.int64(1), np.uint8(2), np.array(1), np.array([1])]
    assert [quick.contains(x) for x in asked] == [plain.contains(x) for x in asked]
    assert quick == plain


def test_an_env_gets_it_and_keeps_its_draws():
    env, like = gymnasium.make("CartPole-v1").unwrapped, gymnasium.make("CartPole-v1").unwrapped
    env.action_space.seed(5), like.action_space.seed(5)
    quicken(env)
    assert type(env.action_space) is QuickDiscrete
    assert [env.action_space.sample() for _ in range(9)] == [like.action_space.sample() for _ in range(9)]
    assert type(make_env(EnvConfig(id="CartPole-v1")).env.unwrapped.action_space) is QuickDiscrete


def test_a_space_of_another_class_stays():
    class Own(spaces.Discrete):
        pass

    env = gymnasium.make("CartPole-v1").unwrapped
    env.action_space = Own(2)
    quicken(env)
    assert type(env.action_space) is Own
    box = gymnasium.make("Pendulum-v1").unwrapped
    quicken(box)
    assert type(box.action_space) is spaces.Box
