"""The DeepMind control suite as Gymnasium envs, from state or pixels: `dmc/cartpole-swingup`."""

from __future__ import annotations

import math
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.suites.gl import gl_error, prepare_gl
from rl_lightning.errors import ConfigError

prepare_gl()  # dm_control chooses its GL once, when it is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # GLFW complains of a missing display that states do not need
    from dm_control import suite

Array = NDArray[Any]


def known_ids() -> list[str]:
    return [f"dmc/{domain}-{task}" for domain, task in suite.ALL_TASKS]


def build(
    env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    try:
        env: gymnasium.Env[Any, Any] = DMControl(env_id, render_mode=render_mode, **kwargs)
    except TypeError as error:
        raise ConfigError(f"{env_id} cannot be made with {kwargs}: {error}") from error
    if max_episode_steps is not None:
        env = gymnasium.wrappers.TimeLimit(env, max_episode_steps)
    return env


class DMControl(gymnasium.Env[Any, Any]):
    """One task. The time limit truncates; only a discount of 0 terminates.

    Args:
        env_id: `dmc/domain-task`.
        pixels: observe frames instead of the state.
        screen_size: height and width of a frame.
        camera: id of the camera.
        task_kwargs: arguments of the task.
        render_mode: `rgb_array` or none.
    """

    constants = ("env_id", "pixels", "screen_size", "camera", "time_limit", "keys", "lazy", "_state")
    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012  (Gymnasium's own pattern)

    def __init__(
        self,
        env_id: str,
        pixels: bool = False,
        screen_size: int = 84,
        camera: int = 0,
        task_kwargs: dict[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.env_id, self.pixels, self.screen_size, self.camera = env_id, pixels, screen_size, camera
        self.render_mode = render_mode
        domain, _, task = env_id.removeprefix("dmc/").partition("-")
        self.control = suite.load(domain, task, task_kwargs={"random": 0, **(task_kwargs or {})})
        limit = self.control._step_limit
        self.time_limit = math.ceil(limit - 1e-9) if math.isfinite(limit) else 2**31
        action = self.control.action_spec()
        shape = action.shape
        low, high = np.broadcast_to(action.minimum, shape), np.broadcast_to(action.maximum, shape)
        self.action_space = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        spec = self.control.observation_spec()
        self.keys = sorted(spec)  # one order for ever, whatever the suite's version returns
        width = sum(math.prod(spec[key].shape) for key in self.keys)
        self.observation_space = (
            spaces.Box(0, 255, (screen_size, screen_size, 3), np.uint8)
            if pixels
            else spaces.Box(-np.inf, np.inf, (width,), np.float32)
        )
        self.lazy = False  # a repeated action needs the frame of its last step only
        self._state: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.control.task._random = np.random.RandomState(seed)
        self._state = self.control.reset().observation
        return self.fresh_obs(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        step = self.control.step(action)
        self._state = step.observation
        ended = bool(step.last())
        terminated = ended and step.discount == 0.0
        obs = None if self.lazy else self.fresh_obs()
        return obs, float(step.reward or 0.0), terminated, ended and not terminated, {}

    def fresh_obs(self) -> Array:
        if self.pixels:
            return self._frame(self.screen_size, self.screen_size)
        return np.concatenate([np.ravel(self._state[key]) for key in self.keys]).astype(np.float32)

    def render(self) -> Array | None:
        return self._frame(240, 320) if self.render_mode == "rgb_array" else None

    def _frame(self, height: int, width: int) -> Array:
        try:
            return self.control.physics.render(height, width, camera_id=self.camera)
        except Exception as error:  # each GL back end raises its own kind
            raise gl_error(self.env_id, error) from error

    def close(self) -> None:
        self.control.close()
