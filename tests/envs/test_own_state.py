"""An env of the user's own is put into a recorded state by its own method; without one the reason is said."""

from types import SimpleNamespace

import gymnasium
import numpy as np

from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.envs.snapshot.set_state import can_set_state, set_state_from_obs


class Line(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0.0
        return np.zeros(1, np.float32), {}


class PlacedLine(Line):
    def set_state_from_obs(self, obs):
        self.place = float(obs[0])


def test_an_own_env_is_placed_by_its_method():
    env = gymnasium.wrappers.OrderEnforcing(PlacedLine())
    assert can_set_state(env) and not can_set_state(Line())
    set_state_from_obs(env, np.array([0.25], np.float32))
    assert env.unwrapped.place == 0.25


def test_the_reason_names_the_method():
    data = ModelRolloutData.__new__(ModelRolloutData)
    data.env = SimpleNamespace(id="mine/Line-v0")
    assert "mine/Line-v0" in data._why_not_placed() and "set_state_from_obs" in data._why_not_placed()
    data.env = None
    assert "--data.env.id" in data._why_not_placed()
