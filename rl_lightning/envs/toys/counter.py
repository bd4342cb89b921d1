"""Every observation says which episode and which step it is: rows that were mixed up give themselves away."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Counter(gymnasium.Env[Any, Any]):
    """Observation (episode id, t), reward t + 1 for the step from t to t + 1.

    Episode ids start at 1000 * (seed mod 1000), so that envs seeded s, s + 1, ... never share one.

    Args:
        episode_length: steps until the episode terminates; endless (but for the time limit) if none.
        jitter: an episode is shorter by up to this many steps, drawn at reset.
        continuous: one action in [-1, 1] instead of two discrete ones.
    """

    def __init__(self, episode_length: int | None = None, jitter: int = 0, continuous: bool = False) -> None:
        self.observation_space = spaces.Box(0.0, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self.episode_length, self.jitter = episode_length, jitter
        self.episode = self.t = self.end = 0

    def _obs(self) -> NDArray[np.float32]:
        return np.array([self.episode, self.t], np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.episode = 1000 * (seed % 1000) if seed is not None else self.episode + 1
        self.t = 0
        self.end = (self.episode_length or 2**31) - int(self.np_random.integers(self.jitter + 1))
        return self._obs(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._obs(), float(self.t), self.t >= self.end, False, {}
