"""The smallest lake: four cells, one hole, no slipping."""

from __future__ import annotations

from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv


class FrozenLake2x2(FrozenLakeEnv):
    """Map SF / HG: right, then down, earns 1. The observation is one-hot.

    Args:
        render_mode: as Gymnasium's FrozenLake.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode, desc=["SF", "HG"], is_slippery=False)
