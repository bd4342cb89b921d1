"""A bandit whose good actions lie apart: eight small heaps on a circle, each worth more than the one before."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

HEAPS = 8
CIRCLE, SPREAD = 0.8, 0.06
OFF = 4 * SPREAD  # further from every heap is off the data
CENTRES = CIRCLE * np.array(
    [(math.cos(2 * math.pi * k / HEAPS), math.sin(2 * math.pi * k / HEAPS)) for k in range(HEAPS)]
)


class EightModes(gymnasium.Env[Any, Any]):
    """One action in the plane, one reward: k / 7 by the nearest heap k, nothing off the heaps."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        away = np.linalg.norm(CENTRES - np.asarray(action, float), axis=-1)
        off = bool(away.min() > OFF)
        reward = 0.0 if off else int(away.argmin()) / (HEAPS - 1)
        return np.zeros(1, np.float32), reward, True, False, {"fell": off}
