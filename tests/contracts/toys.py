"""Envs for tests only: the smallest task of each kind that rl/ has none of. One step, one right answer."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Target(gymnasium.Env):
    """Name the number that is shown: reward 1 - |action - obs|, at most 1. `size` draws it as a picture."""

    def __init__(self, size: int | None = None, length: int = 4):
        self.size, self.length = size, length
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.observation_space = (
            spaces.Box(0, 255, (size, size, 1), np.uint8) if size else spaces.Box(-1.0, 1.0, (1,), np.float32)
        )
        self.t, self.goal = 0, 0.0

    def _obs(self):
        if not self.size:
            return np.array([self.goal], np.float32)
        frame = np.zeros((self.size, self.size, 1), np.uint8)
        frame[:, round((self.goal + 1) / 2 * (self.size - 1))] = 255
        return frame

    def _draw(self):
        self.goal = float(self.np_random.integers(-1, 2)) * 0.8
        return self._obs()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._draw(), {}

    def step(self, action):
        reward = 1.0 - abs(float(action[0]) / 2.0 - self.goal)
        self.t += 1
        return self._draw(), reward, self.t >= self.length, False, {}


class Match(gymnasium.Env):
    """Two choices at once, each to equal its half of the observation: reward is the share that do."""

    def __init__(self):
        self.observation_space = spaces.MultiDiscrete([3, 2])
        self.action_space = spaces.MultiDiscrete([3, 2])
        self.t, self.goal = 0, np.zeros(2, np.int64)

    def _draw(self):
        self.goal = np.array([self.np_random.integers(3), self.np_random.integers(2)])
        return self.goal.copy()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._draw(), {}

    def step(self, action):
        reward = float((np.asarray(action) == self.goal).mean())
        self.t += 1
        return self._draw(), reward, self.t >= 4, False, {}


class Frames(gymnasium.Env):
    """Each frame is a constant of its own (episode and step), so that a stack names the frames it is made of."""

    def __init__(self, length: int = 7, jitter: int = 0, truncate: bool = False):
        self.observation_space = spaces.Box(0, 255, (4, 4, 1), np.uint8)
        self.action_space = spaces.Discrete(2)
        self.length, self.jitter, self.truncate = length, jitter, truncate
        self.t = self.end = self.count = 0

    def _obs(self):
        frame = np.full((4, 4, 1), self.count % 256, np.uint8)
        frame[0, 0, 0] = self.t
        self.count += 1
        return frame

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.end = max(1, self.length - int(self.np_random.integers(self.jitter + 1)))
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        over = self.t >= self.end
        return self._obs(), float(self.count), over and not self.truncate, over and self.truncate, {}


for _name, _class in (("Target", Target), ("Match", Match), ("Frames", Frames)):
    if f"tests/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"tests/{_name}-v0", entry_point=_class)
