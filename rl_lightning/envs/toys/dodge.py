"""Blocks fall, most of them aimed at where the player stands: in the spirit of Doom's Take Cover, from pixels."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SIZE = 64
WIDE = 8  # of player and blocks
STRIDE = 4  # pixels that everything moves per step
LAST = SIZE - WIDE  # left edge of what stands at the right wall


class Dodge(gymnasium.Env[Any, Any]):
    """Grey pixels [64, 64, 1]; +1 for every step survived, over when a block hits.

    A block that is aimed falls where the player stood when it appeared. Who never moves, or leans against a wall, is
    therefore hit sooner than who stumbles about; who keeps out of the way lives long.

    Args:
        spawn_every: Steps between two blocks.
        aimed_fraction: Fraction of the blocks that are aimed.
        render_mode: `rgb_array` or none.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012  (Gymnasium's own pattern)
    MOVES = (0, -STRIDE, STRIDE)  # stay, left, right

    def __init__(
        self, spawn_every: int = 8, aimed_fraction: float = 0.7, render_mode: str | None = None
    ) -> None:
        self.spawn_every, self.aimed_fraction, self.render_mode = spawn_every, aimed_fraction, render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.player = 0  # left edge
        self.blocks: list[list[int]] = []  # [left edge, top edge] of each, oldest first
        self.clock = 0

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "RIGHT"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        super().reset(seed=seed)
        self.player = STRIDE * int(self.np_random.integers(LAST // STRIDE + 1))
        self.blocks, self.clock = [], int(self.np_random.integers(self.spawn_every))
        return self._frame(), {}

    def step(self, action: int) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        self.player = min(max(self.player + self.MOVES[int(action)], 0), LAST)
        self.blocks = [[left, top + STRIDE] for left, top in self.blocks if top < LAST]
        self.clock += 1
        if self.clock % self.spawn_every == 0:
            # Both numbers are always drawn, so that what falls later does not hang on what was aimed before.
            chance, place = self.np_random.random(), self.np_random.integers(LAST // STRIDE + 1)
            self.blocks.append([self.player if chance < self.aimed_fraction else STRIDE * int(place), 0])
        hit = any(top + WIDE > LAST and abs(left - self.player) < WIDE for left, top in self.blocks)
        return self._frame(), 1.0, hit, False, {}

    def _frame(self) -> NDArray[np.uint8]:
        frame = np.zeros((SIZE, SIZE, 1), np.uint8)
        for left, top in self.blocks:
            frame[top : top + WIDE, left : left + WIDE] = 255
        frame[LAST:, self.player : self.player + WIDE] = 160
        return frame

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode != "rgb_array":
            return None
        return self._frame().repeat(4, axis=0).repeat(4, axis=1).repeat(3, axis=2)
