"""Some actions are illegal at each step, and only the mask says which."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Masked(gymnasium.Env[Any, Any]):
    """The observation is the worth of each action; an illegal one costs 5 and ends the episode.

    Args:
        num_actions: number of actions, about half of them legal at a time.
        episode_length: steps of an episode.
    """

    PENALTY = -5.0

    def __init__(self, num_actions: int = 6, episode_length: int = 20) -> None:
        self.episode_length = episode_length
        self.observation_space = spaces.Box(0.0, 1.0, (num_actions,), np.float32)
        self.action_space = spaces.Discrete(num_actions)
        self.t = 0
        self.worth = np.zeros(num_actions, np.float32)
        self.legal = np.ones(num_actions, np.bool_)

    def _draw(self) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self.worth = self.np_random.random(len(self.worth), np.float32)
        self.legal = self.np_random.random(len(self.worth)) < 0.5
        self.legal[self.np_random.integers(len(self.worth))] = True
        return self.worth.copy(), {"action_mask": self.legal.copy()}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._draw()

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        legal = bool(self.legal[int(action)])
        reward = float(self.worth[int(action)]) if legal else self.PENALTY
        self.t += 1
        obs, info = self._draw()
        return obs, reward, not legal or self.t >= self.episode_length, False, info
