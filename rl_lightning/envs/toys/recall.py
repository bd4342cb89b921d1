"""A memory task: what is shown once must be repeated later."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Recall(gymnasium.Env[Any, Any]):
    """The cue is seen at the first step only; the action at the last step must name it.

    Right is worth 1 and wrong -1 / (cues - 1), so that any policy without memory earns 0 on average. With `go_nogo` the
    second of two cues means go: action 1 is then worth 1, after the other cue -1, and action 0 is worth nothing.

    Args:
        num_cues: number of different cues.
        delay: blank steps between the cue and the question.
        screen_size: height and width of a picture that shows it (a bright column per cue, grey for the question);
            null: a row.
        go_nogo: go or stay, instead of naming the cue; a cue then changes the mean reward, too, from which a model
            of the world finds out sooner that it must remember.
    """

    def __init__(
        self, num_cues: int = 2, delay: int = 4, screen_size: int | None = None, go_nogo: bool = False
    ) -> None:
        if go_nogo and num_cues != 2:
            raise ValueError(f"go_nogo is for two cues, not {num_cues}")
        self.num_cues, self.delay, self.screen_size, self.go_nogo = num_cues, delay, screen_size, go_nogo
        self.observation_space = (
            spaces.Box(0, 255, (screen_size, screen_size, 1), np.uint8)
            if screen_size
            else spaces.Box(0.0, 1.0, (num_cues + 1,), np.float32)
        )
        self.action_space = spaces.Discrete(num_cues)
        self.cue = self.t = 0

    def _obs(self) -> NDArray[Any]:
        if self.screen_size:
            return self._picture(self.screen_size)
        obs = np.zeros(self.num_cues + 1, np.float32)
        if self.t == 0:
            obs[self.cue] = 1.0
        obs[-1] = float(self.t == self.delay + 1)  # the question
        return obs

    def _picture(self, size: int) -> NDArray[np.uint8]:
        frame = np.zeros((size, size, 1), np.uint8)
        if self.t == 0:
            width = size // self.num_cues
            frame[size // 4 : -size // 4, self.cue * width : (self.cue + 1) * width] = 255
        elif self.t == self.delay + 1:
            frame[:] = 128
        return frame

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.cue, self.t = int(self.np_random.integers(self.num_cues)), 0
        return self._obs(), {}

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        asked = self.t == self.delay + 1
        reward = self._worth(int(action)) if asked else 0.0
        self.t += 1
        return self._obs(), reward, asked, False, {}

    def _worth(self, action: int) -> float:
        """Of an answer."""
        if self.go_nogo:
            return float(action * (2 * self.cue - 1))
        return 1.0 if action == self.cue else -1.0 / (self.num_cues - 1)
