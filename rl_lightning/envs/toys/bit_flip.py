"""A goal that nobody reaches by chance: a row of bits to be made equal to another, one flip at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Array = NDArray[np.float32]


class BitFlip(gymnasium.Env[Any, Any]):
    """Reward -1 at every step that leaves a bit wrong, 0 and the end where none is; cut after `num_bits` steps.

    Args:
        num_bits: Length of the row.
        continuous: An action is a number for each bit, and the largest one says which is flipped.
    """

    def __init__(self, num_bits: int = 10, continuous: bool = False) -> None:
        bits = spaces.Box(0.0, 1.0, (num_bits,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = spaces.Dict({name: bits for name in names})
        self.action_space: spaces.Space[Any] = (
            spaces.Box(-1.0, 1.0, (num_bits,), np.float32) if continuous else spaces.Discrete(num_bits)
        )
        self.num_bits, self.continuous, self.t = num_bits, continuous, 0
        self.bits, self.goal = np.zeros(num_bits, np.float32), np.zeros(num_bits, np.float32)

    def _obs(self) -> dict[str, Array]:
        return {
            "observation": self.bits.copy(),
            "achieved_goal": self.bits.copy(),
            "desired_goal": self.goal.copy(),
        }

    def compute_reward(self, achieved_goal: Array, desired_goal: Array, info: Any) -> Any:
        return -(achieved_goal != desired_goal).any(-1).astype(np.float32)

    def compute_terminated(self, achieved_goal: Array, desired_goal: Array, info: Any) -> bool:
        return bool((achieved_goal == desired_goal).all())

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        self.bits = self.np_random.integers(2, size=self.num_bits).astype(np.float32)
        self.goal = self.np_random.integers(2, size=self.num_bits).astype(np.float32)
        if (self.bits == self.goal).all():
            self.goal[0] = 1.0 - self.goal[0]
        return self._obs(), {}

    def step(self, action: Any) -> tuple[dict[str, Array], float, bool, bool, dict[str, Any]]:
        bit = int(np.argmax(action)) if self.continuous else int(action)
        self.bits[bit] = 1.0 - self.bits[bit]
        self.t += 1
        reward = float(self.compute_reward(self.bits, self.goal, {}))
        solved = self.compute_terminated(self.bits, self.goal, {})
        return self._obs(), reward, solved, self.t >= self.num_bits and not solved, {"success": solved}
