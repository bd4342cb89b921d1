"""CarRacing whose frames are small, and drawn only where somebody looks at them."""

from __future__ import annotations

from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.box2d.car_racing import CarRacing
from numpy.typing import NDArray

from rl_lightning.errors import ConfigError

LIMIT = 1000
BAR = 12  # rows of the instrument bar below the 96 x 96 picture


def known_ids() -> list[str]:
    return ["CarRacing-v3"]


def build(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    try:
        env = SmallCarRacing(render_mode=render_mode, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{env_id} cannot be made with {kwargs}: {error}") from error
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps or LIMIT)


class SmallCarRacing(CarRacing):
    """CarRacing at `screen_size` pixels; skipped frames of a repeated action are not drawn.

    Args:
        screen_size: height and width of a frame.
        grayscale: one grey channel.
        crop_bar: cut the instrument bar off before resizing.
        continuous: steer, gas and brake; else five discrete actions.
        domain_randomize: new colours in each episode.
        lap_complete_percent: fraction of the tiles that makes a lap.
        render_mode: `rgb_array`, `human` or none.
    """

    def __init__(
        self,
        screen_size: int = 64,
        grayscale: bool = False,
        crop_bar: bool = False,
        continuous: bool = True,
        domain_randomize: bool = False,
        lap_complete_percent: float = 0.95,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            render_mode=render_mode,
            lap_complete_percent=lap_complete_percent,
            domain_randomize=domain_randomize,
            continuous=continuous,
        )
        self.screen_size, self.grayscale, self.crop_bar = screen_size, grayscale, crop_bar
        self.observation_space = spaces.Box(
            0, 255, (screen_size, screen_size, 1 if grayscale else 3), np.uint8
        )
        self.lazy = False

    def _render(self, mode: str) -> Any:
        if mode != "state_pixels":
            return super()._render(mode)
        return None if self.lazy else self.fresh_obs()

    def fresh_obs(self) -> NDArray[np.uint8]:
        frame = super()._render("state_pixels")
        if frame is None:  # the constructor draws before the first reset
            return np.zeros((self.screen_size, self.screen_size, 1 if self.grayscale else 3), np.uint8)
        if self.crop_bar:
            frame = frame[:-BAR]
        frame = cv2.resize(frame, (self.screen_size, self.screen_size), interpolation=cv2.INTER_AREA)
        return cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY)[:, :, None] if self.grayscale else frame
