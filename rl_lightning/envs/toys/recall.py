"""A memory task: what is shown once must be repeated later."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Recall(gymnasium.Env[Any, Any]):
    """The cue is seen at the first step only; the action at the last step must name it.

    Right is worth 1 and wrong -1 / (cues - 1), so that any policy without memory earns 0 on average.

    Args:
        cues: number of different cues.
        delay: blank steps between the cue and the question.
    """

    def __init__(self, cues: int = 2, delay: int = 4) -> None:
        self.cues, self.delay = cues, delay
        self.observation_space = spaces.Box(0.0, 1.0, (cues + 1,), np.float32)
        self.action_space = spaces.Discrete(cues)
        self.cue = self.t = 0

    def _obs(self) -> NDArray[np.float32]:
        obs = np.zeros(self.cues + 1, np.float32)
        if self.t == 0:
            obs[self.cue] = 1.0
        obs[-1] = float(self.t == self.delay + 1)  # the question
        return obs

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(self.cues)), 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        asked = self.t == self.delay + 1
        reward = 0.0
        if asked:
            reward = 1.0 if int(action) == self.cue else -1.0 / (self.cues - 1)
        self.t += 1
        return self._obs(), reward, asked, False, {}
