"""A ball falls, a paddle catches it."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Catch(gymnasium.Env[Any, Any]):
    """Pixels [rows, columns, 1]; +1 if the paddle is below the ball when it lands, else -1.

    Args:
        rows: height of the board.
        columns: width of the board.
        screen_size: frames are scaled up to this height and width; the board's own size if none.
        render_mode: `rgb_array` or none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)
    MOVES = (0, -1, 1)  # stay, left, right

    def __init__(
        self,
        rows: int = 10,
        columns: int = 10,
        screen_size: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.rows, self.columns, self.screen_size, self.render_mode = rows, columns, screen_size, render_mode
        height, width = (screen_size, screen_size) if screen_size else (rows, columns)
        self._row_of = np.arange(height) * rows // height
        self._column_of = np.arange(width) * columns // width
        self.observation_space = spaces.Box(0, 255, (height, width, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.ball = [0, 0]
        self.paddle = 0

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "RIGHT"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.ball = [0, int(self.np_random.integers(self.columns))]
        self.paddle = int(self.np_random.integers(self.columns))
        return self._frame(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.paddle = min(max(self.paddle + self.MOVES[int(action)], 0), self.columns - 1)
        self.ball[0] += 1
        landed = self.ball[0] >= self.rows - 1
        reward = (1.0 if self.ball[1] == self.paddle else -1.0) if landed else 0.0
        return self._frame(), reward, landed, False, {}

    def _frame(self) -> NDArray[np.uint8]:
        board = np.zeros((self.rows, self.columns), np.uint8)
        board[self.rows - 1, self.paddle] = 128
        board[min(self.ball[0], self.rows - 1), self.ball[1]] = 255
        return board[self._row_of][:, self._column_of, None]

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode != "rgb_array":
            return None
        return self._frame().repeat(8, axis=0).repeat(8, axis=1).repeat(3, axis=2)
