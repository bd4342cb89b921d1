"""One state, reward 1: the value of a truncated episode must be that of an endless one."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class ConstantReward(gymnasium.Env[Any, Any]):
    """Nothing changes; the time limit of the id truncates.

    Args:
        continuous: one action in [-1, 1] instead of two discrete ones.
        reward: of each step.
    """

    def __init__(self, continuous: bool = False, reward: float = 1.0) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self.reward = reward

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        return np.ones(1, np.float32), self.reward, False, False, {}
