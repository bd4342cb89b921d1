"""MiniGrid with observations that a network can read, and success recorded."""

from __future__ import annotations

from typing import Any

import gymnasium
import minigrid  # noqa: F401  (registers the ids)
import numpy as np
from gymnasium import spaces
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from numpy.typing import NDArray

from rl_lightning.envs.registry import Env, gym_make
from rl_lightning.errors import ConfigError

MODES = ("one_hot", "flat", "image", "dict")
SIZES = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), len(STATE_TO_IDX))


def known_ids() -> list[str]:
    return [
        name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("minigrid.")
    ]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    options = dict(kwargs)
    mode = options.pop("obs_mode", "one_hot")
    if mode not in MODES:
        raise ConfigError(f"{env_id}: obs_mode '{mode}' is none of {', '.join(MODES)}")
    return GridObs(gym_make(env_id, options, max_episode_steps, render_mode), mode)


class GridObs(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The agent's view, without the mission's text.

    Args:
        env: a MiniGrid env.
        obs_mode: `one_hot` (object, colour and state of each cell, and the direction; what an MLP learns
            from), `flat` (the same as indices divided by their largest), `image` (uint8 planes of indices),
            `dict` (image and direction, encoded by the general rules).
    """

    constants = ("obs_mode", "_tables")

    def __init__(self, env: Env, obs_mode: str = "one_hot") -> None:
        super().__init__(env)
        self.obs_mode = obs_mode
        assert isinstance(env.observation_space, spaces.Dict)
        image = env.observation_space["image"]
        assert image.shape is not None
        cells = image.shape[0] * image.shape[1]
        self.observation_space = {
            "one_hot": spaces.Box(0.0, 1.0, (cells * sum(SIZES) + 4,), np.float32),
            "flat": spaces.Box(0.0, 1.0, (cells * 3 + 4,), np.float32),
            "image": image,
            "dict": spaces.Dict(
                {"image": image, "direction": env.observation_space["direction"]},
            ),
        }[obs_mode]
        self._tables = [np.eye(size, dtype=np.float32) for size in SIZES]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._view(obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        success = float(terminated and float(reward) > 0)
        return self._view(obs), reward, terminated, truncated, {**info, "success": success}

    def _view(self, obs: dict[str, Any]) -> Any:
        image: NDArray[np.uint8] = obs["image"]
        if self.obs_mode == "image":
            return image
        if self.obs_mode == "dict":
            return {"image": image, "direction": obs["direction"]}
        direction = np.eye(4, dtype=np.float32)[obs["direction"]]
        if self.obs_mode == "flat":
            cells = image.astype(np.float32) / np.array([size - 1 for size in SIZES], np.float32)
        else:
            cells = np.concatenate([table[image[..., k]] for k, table in enumerate(self._tables)], axis=-1)
        return np.concatenate([cells.reshape(-1), direction])
