"""A task that needs a picture and a vector together: neither alone says anything about what is right."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Xor(gymnasium.Env[Any, Any]):
    """The picture is bright on one side, the vector positive or negative; right is the exclusive or of both.

    An episode asks `questions` times; each right answer is worth 1 / questions. So 0.5 is what chance earns, and what
    anyone earns who sees one of the two only.

    Args:
        questions: Steps of an episode.
        screen_size: Height and width of the picture.
        continuous: Answers are the sign of a number instead of one of two actions.
    """

    def __init__(self, questions: int = 10, screen_size: int = 16, continuous: bool = False) -> None:
        self.questions, self.screen_size, self.continuous = questions, screen_size, continuous
        self.observation_space = spaces.Dict(
            {
                "image": spaces.Box(0, 255, (screen_size, screen_size, 1), np.uint8),
                "proprio": spaces.Box(-2.0, 2.0, (3,), np.float32),
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32) if continuous else spaces.Discrete(2)
        self.t, self.bright, self.positive = 0, False, False

    def _obs(self) -> dict[str, NDArray[Any]]:
        self.bright, self.positive = (bool(bit) for bit in self.np_random.integers(2, size=2))
        half = self.screen_size // 2
        image = self.np_random.integers(0, 80, (self.screen_size, self.screen_size, 1), np.uint8)
        image[:, half:] += np.uint8(120 * self.bright)
        image[:, :half] += np.uint8(120 * (not self.bright))
        proprio = self.np_random.normal(0.0, 0.3, 3).clip(-0.9, 0.9).astype(np.float32)
        proprio[0] += 1.0 if self.positive else -1.0
        return {"image": image, "proprio": proprio}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._obs(), {}

    def step(self, action: Any) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        answer = float(action[0]) > 0.0 if self.continuous else int(action) == 1
        right = answer == (self.bright != self.positive)
        self.t += 1
        return self._obs(), float(right) / self.questions, self.t == self.questions, False, {}
