"""A point walks to a goal behind an obstacle; above and below are equally good ways, and between them is none."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SIDE = 1.2  # the plane ends here


class Detour(gymnasium.Env[Any, Any]):
    """Position in the plane. Reward 1 and the end at the goal; who touches the disc is out.

    Args:
        radius: Of the obstacle, around the origin.
        step_size: Longest step along each axis.
        pixels: Observe a picture: red is the point, green the goal, blue the obstacle.
        screen_size: Height and width of the picture.
        render_mode: `rgb_array` or none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)
    START = (-0.9, 0.0)
    GOAL = (0.9, 0.0)
    REACH = 0.15

    def __init__(
        self,
        radius: float = 0.35,
        step_size: float = 0.1,
        pixels: bool = False,
        screen_size: int = 24,
        render_mode: str | None = None,
    ) -> None:
        self.radius, self.step_size, self.render_mode = radius, step_size, render_mode
        self.pixels, self.screen_size = pixels, screen_size
        self.observation_space: spaces.Box = (
            spaces.Box(0, 255, (screen_size, screen_size, 3), np.uint8)
            if pixels
            else spaces.Box(-SIDE, SIDE, (2,), np.float32)
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.position = np.zeros(2)
        self.above = False
        self._scene = {wide: self._draw_scene(wide) for wide in {screen_size, 192}}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.position = np.array(self.START) + self.np_random.uniform(-0.03, 0.03, 2)
        self.above = False
        return self._obs(), {}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        move = self.step_size * np.clip(np.asarray(action, float), -1.0, 1.0)
        before, self.position = self.position, np.clip(self.position + move, -SIDE, SIDE)
        if before[0] < 0.0 <= self.position[0]:
            self.above = bool(self.position[1] > 0.0)
        fell = math.hypot(*self.position) < self.radius
        there = math.dist(self.position, self.GOAL) < self.REACH
        info = {"fell": fell, "success": there, "success_above": there and self.above}
        return self._obs(), float(there), fell or there, False, info

    def _obs(self) -> NDArray[Any]:
        return self._picture(self.screen_size) if self.pixels else self.position.astype(np.float32)

    def _draw_scene(self, size: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]:
        line = (np.arange(size) + 0.5) / size * 2 * SIDE - SIDE
        x, y = np.meshgrid(line, -line)
        frame = np.zeros((size, size, 3), np.uint8)
        frame[np.hypot(x - self.GOAL[0], y - self.GOAL[1]) < self.REACH, 1] = 255
        frame[np.hypot(x, y) < self.radius, 2] = 255
        return x, y, frame

    def _picture(self, size: int) -> NDArray[np.uint8]:
        x, y, scene = self._scene[size]
        frame = scene.copy()
        spread = np.square(x - self.position[0]) + np.square(y - self.position[1])
        frame[..., 0] = 255 * np.exp(
            -spread / (2 * (1.2 * SIDE / 12) ** 2)
        )  # soft: its middle tells the place
        return frame

    def render(self) -> NDArray[np.uint8] | None:
        return self._picture(192) if self.render_mode == "rgb_array" else None


def middle_of(picture: NDArray[Any]) -> NDArray[np.float32]:
    """Where the point stands in pictures [N, 3, S, S]."""
    red = np.square(picture[:, 0].astype(np.float64))
    line = (np.arange(red.shape[-1]) + 0.5) / red.shape[-1] * 2 * SIDE - SIDE
    total = red.sum((1, 2))
    place = np.stack(((red.sum(1) * line).sum(1) / total, (red.sum(2) * -line).sum(1) / total), -1)
    return place.astype(np.float32)
