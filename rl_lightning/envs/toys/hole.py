"""A point walks to a goal; on the straight way lies a hole that careful walkers go around."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Hole(gymnasium.Env[Any, Any]):
    """Position in the plane; the reward grows towards the goal. Who enters the disc falls in, and the episode ends.

    Args:
        radius: Of the hole, around the origin.
        step_size: Longest step along each axis.
        fall_reward: Reward of falling in.
        render_mode: `rgb_array` or none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)
    START = (-0.9, 0.0)
    GOAL = (0.9, 0.0)
    SIDE = 1.2  # the plane ends here

    def __init__(
        self,
        radius: float = 0.4,
        step_size: float = 0.1,
        fall_reward: float = -50.0,
        render_mode: str | None = None,
    ) -> None:
        self.radius, self.step_size, self.fall_reward, self.render_mode = (
            radius,
            step_size,
            fall_reward,
            render_mode,
        )
        self.observation_space = spaces.Box(-self.SIDE, self.SIDE, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.position = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        self.position = np.array(self.START) + self.np_random.uniform(-0.1, 0.1, 2)
        return self.position.astype(np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        move = self.step_size * np.clip(np.asarray(action, float), -1.0, 1.0)
        self.position = np.clip(self.position + move, -self.SIDE, self.SIDE)
        fell = math.hypot(*self.position) < self.radius
        near = float(np.linalg.norm(self.position - self.GOAL)) < 0.15
        reward = self.fall_reward if fell else 1.0 - float(np.linalg.norm(self.position - self.GOAL))
        return self.position.astype(np.float32), reward, fell, False, {"fell": fell, "success": near}

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode != "rgb_array":
            return None
        size = 192
        line = np.linspace(-self.SIDE, self.SIDE, size)
        x, y = np.meshgrid(line, -line)
        frame = np.full((size, size, 3), 255, np.uint8)
        frame[np.hypot(x, y) < self.radius] = (40, 40, 40)
        frame[np.hypot(x - self.GOAL[0], y - self.GOAL[1]) < 0.15] = (120, 200, 120)
        frame[np.hypot(x - self.position[0], y - self.position[1]) < 0.05] = (200, 60, 60)
        return frame
