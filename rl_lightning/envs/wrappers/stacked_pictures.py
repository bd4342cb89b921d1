"""Stacks of the pictures in a Dict or Tuple; what lies beside them stays as it is."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.spaces import ObsEncoder, is_image

Env = gymnasium.Env[Any, Any]
Space = spaces.Space[Any]


class StackedPictures(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The last k of every picture along its first axis, newest last, padded with the first one of the episode."""

    channels_first = True
    constants = ("num_stack", "encoders")

    def __init__(self, env: Env, num_stack: int) -> None:
        super().__init__(env)
        self.num_stack = num_stack
        self.encoders: dict[str, ObsEncoder] = {}
        self.observation_space = self._space("", env.observation_space)
        self.stacks: dict[str, NDArray[Any]] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        self.stacks = {}
        return self._observed("", self.env.observation_space, obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._observed("", self.env.observation_space, obs), reward, terminated, truncated, info

    def _space(self, name: str, space: Space) -> Space:
        if isinstance(space, spaces.Dict):
            return spaces.Dict(
                {key: self._space(f"{name}.{key}", part) for key, part in space.spaces.items()}
            )
        if isinstance(space, spaces.Tuple):
            return spaces.Tuple([self._space(f"{name}.{k}", part) for k, part in enumerate(space.spaces)])
        if not is_image(space):
            return space
        self.encoders[name] = ObsEncoder(space)
        channels, *size = self.encoders[name].encoded.shape
        return spaces.Box(0, 255, (self.num_stack * channels, *size), np.uint8)

    def _observed(self, name: str, space: Space, obs: Any) -> Any:
        if isinstance(space, spaces.Dict):
            return {
                key: self._observed(f"{name}.{key}", part, obs[key]) for key, part in space.spaces.items()
            }
        if isinstance(space, spaces.Tuple):
            return tuple(self._observed(f"{name}.{k}", part, obs[k]) for k, part in enumerate(space.spaces))
        return self._stacked(name, self.encoders[name](np.asarray(obs))) if name in self.encoders else obs

    def _stacked(self, name: str, frame: NDArray[Any]) -> NDArray[Any]:
        before = self.stacks.get(name)
        past = [frame] * (self.num_stack - 1) if before is None else [before[len(frame) :]]
        self.stacks[name] = np.concatenate([*past, frame])
        return self.stacks[name].copy()
