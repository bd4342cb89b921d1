"""Snapshots of a user's own env, and states that do not fit."""

import enum
import random
import sys
from collections import deque

import gymnasium
import numpy as np
import pytest
import torch
from snapshot_cases import check_exact, played, random_actions, through_a_file

from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack
from rl_lightning.errors import EnvError, ResumeError


class Mood(enum.Enum):
    CALM = 1
    WILD = 2


class Plain(gymnasium.Env):
    """Attributes of every plain kind, some of them one object under two names."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.place = np.zeros(3)
        self.history = deque(maxlen=4)
        self.random = random.Random(1)
        self.old_random = np.random.RandomState(1)
        self.torch_random = torch.Generator().manual_seed(1)
        self.tensor = torch.zeros(3)
        self.seen, self.table, self.mood, self.span = set(), {}, Mood.CALM, range(3)
        self.grid = np.asfortranarray(np.ones((2, 3)))
        self.note = b""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.random(3)
        self.alias = self.place
        self.shared = [[1], [2]]
        self.table = {"list": self.shared, 3: self.shared[0]}
        self.t = 0
        return self.obs(), {}

    def obs(self):
        return self.place.astype(np.float32)

    def step(self, action):
        self.t += 1
        self.late = self.t  # not there before the first step
        self.alias += self.random.random() + self.old_random.normal() + self.np_random.random()
        self.tensor = self.tensor + torch.rand(3, generator=self.torch_random)
        self.shared[0][0] += 1
        self.history.append(self.place.copy())
        self.seen.add(self.t)
        self.grid *= 1.01
        self.mood = Mood.WILD if self.t % 2 else Mood.CALM
        self.span = range(self.t)
        self.note += b"x"
        extra = self.table[3][0] + len(self.seen) + self.mood.value + len(self.span) + len(self.note)
        extra += sum(float(row.sum()) for row in self.history) + float(self.grid.sum() + self.tensor.sum())
        child = np.random.Generator(self.np_random.bit_generator.jumped()).random()
        return self.obs(), float(extra + child + self.action_space.sample()), self.t >= 25, False, {}


class Spoken(gymnasium.Env):
    """Holds what nobody can save, but speaks for itself."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.world = iter(())
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = float(self.np_random.random())
        return np.array([self.t], np.float32), {}

    def step(self, action):
        self.t += 1.0
        return np.array([self.t], np.float32), self.t, self.t > 20, False, {}

    def get_state(self):
        return {"t": self.t, "array": np.arange(3)}

    def set_state(self, state):
        assert state["array"].tolist() == [0, 1, 2]
        self.t = state["t"]


class Opaque(Spoken):
    get_state = None


class Viewing(Plain):
    def reset(self, *, seed=None, options=None):
        answer = super().reset(seed=seed)
        self.alias = self.place[:2]
        return answer


class Broken(Spoken):
    def get_state(self):
        raise OSError("no state today")


for cls in (Plain, Spoken, Opaque, Viewing, Broken):
    gymnasium.register(f"Mine{cls.__name__}-v0", entry_point=cls)


@pytest.mark.parametrize("name", ["Plain", "Spoken"])
def test_a_users_own_env(name):
    check_exact(EnvConfig(f"Mine{name}-v0"), before=40, after=90, ends=3)


@pytest.mark.parametrize(("name", "why"), [("Opaque", "world is a"), ("Viewing", "shares its memory")])
def test_an_env_that_cannot_be_saved_says_why(name, why):
    envs = make_envs(EnvConfig(f"Mine{name}-v0"), 1)
    envs.reset(seed=0)
    assert envs.snapshot() == [None] and why in envs.call("unsaved")[0]
    obs, infos = envs.restore([None])[0]
    assert obs.shape == envs.env_spec.obs_shape and infos == {}


def test_a_failing_get_state_is_named():
    envs = make_envs(EnvConfig("MineBroken-v0"), 1)
    envs.reset(seed=0)
    with pytest.raises(EnvError, match=r"MineBroken-v0 \(env 0\).*no state today"):
        envs.snapshot()


def saved(config, steps=5):
    envs = make_envs(config, 1)
    envs.reset(seed=0)
    played(envs, random_actions(envs, steps, 1))
    return envs, through_a_file(envs.snapshot())[0]


def layer(states, k):
    return states[0]["layers"][k][1]["attributes"]


def test_states_that_do_not_fit_are_refused():
    envs, states = saved(EnvConfig("CartPole-v1", transforms=[FrameStack(2)]))
    with pytest.raises(ResumeError, match="2 saved envs, but 1"):
        envs.restore(states * 2)
    for wrong in ({}, {"layers": 3}, {"layers": []}, {"other": 1}, 7, {"layers": [["CartPoleEnv", {}]]}):
        with pytest.raises(ResumeError, match=r"CartPole-v1 \(env 0\)"):
            envs.restore([wrong])
    for wrong in (np.zeros(3), torch.zeros(3), object()):
        with pytest.raises(ResumeError, match="saved state has a"):
            envs.restore([{"layers": wrong}])
    with pytest.raises(ResumeError, match=r"layers .*Acrobot"):
        envs.restore(saved(EnvConfig("Acrobot-v1"))[1])
    with pytest.raises(ResumeError, match=r"FrameStackWrapper.stack of \(12,\) instead of \(8,\)"):
        envs.restore(saved(EnvConfig("CartPole-v1", transforms=[FrameStack(3)]))[1])
    del layer(states, -1)["gravity"]
    with pytest.raises(ResumeError, match=r"no value for CartPoleEnv.gravity"):
        envs.restore(states)


def test_no_class_or_method_comes_out_of_a_file():
    grid = EnvConfig("MiniGrid-DoorKey-5x5-v0")
    for node in (
        {"new": ["subprocess", "Popen", {}]},
        {"new": ["minigrid.minigrid_env", "MiniGridEnv", {}]},
        {"new": ["minigrid.core.grid", "np.ndarray", {}]},
        {"enum": ["os", "system", "x"]},
        {"generator": ["os", {}, None]},
        {"array": ["|O", (1,), "C", True, b"12345678"]},
        {"array": ["<f8", (3,), "C", True, b"12345678"]},
        {"ref": 10**6},
        {"unknown": 1},
        {"dict": 3},
    ):
        envs, states = saved(grid)
        layer(states, -1)["carrying"] = node
        with pytest.raises(ResumeError, match="MiniGrid"):
            envs.restore(states)
    envs, states = saved(grid)
    layer(states, -1)["__class__"] = 1
    with pytest.raises(ResumeError, match="__class__"):
        envs.restore(states)
    assert "antigravity" not in sys.modules


def test_damaged_simulator_states_are_refused():
    envs, states = saved(EnvConfig("Hopper-v5"))
    layout, packed = layer(states, -1)["data"]["simulator"][1][1]
    for wrong in ([layout, packed[:40]], [layout + 1, packed], [layout, b"x"]):
        layer(states, -1)["data"]["simulator"][1][1] = wrong
        with pytest.raises(ResumeError, match="Hopper"):
            envs.restore(states)
    with pytest.raises(ResumeError, match="Walker2d"):
        envs.restore(saved(EnvConfig("Walker2d-v5"))[1])
    atari = EnvConfig("ALE/Pong-v5", transforms=[AtariPreprocessing(noop_max=2)])
    envs, states = saved(atari, 1)
    name, data = layer(states, -1)["ale"]["simulator"]
    layer(states, -1)["ale"]["simulator"] = [name, data[: len(data) // 2]]
    with pytest.raises(ResumeError, match="Pong"):
        envs.restore(states)


def test_workers_hand_on_what_does_not_fit():
    _, states = saved(EnvConfig("Acrobot-v1"))
    envs = make_envs(EnvConfig("CartPole-v1"), 1, "async")
    envs.reset(seed=0)
    with pytest.raises(ResumeError, match="CartPole-v1"):
        envs.restore(states)
