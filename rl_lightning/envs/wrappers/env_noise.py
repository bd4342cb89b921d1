"""Sensor and actuator noise."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.wrappers.env_wrappers import Env, Reset, Step
from rl_lightning.errors import ConfigError


class EnvNoise:
    """With probability `noise_prob` per step, Gaussian noise on the whole action, observation, or each on its own.

    The state of the simulator is untouched; what is disturbed is clipped to its bounds.

    Args:
        actions: disturb the action, in units of half its range where that is finite; replace a discrete one by any.
        observations: disturb the observation, also the one of a reset.
        noise_prob: probability per step.
        noise_std: standard deviation.
        relative: the scale is a fraction of each observation's spread (`obs_std`, or the running one of this env).
        obs_std: declared spread of each observation, for `relative`.
    """

    def __init__(
        self,
        actions: bool = False,
        observations: bool = True,
        noise_prob: float = 0.01,
        noise_std: float = 0.001,
        relative: bool = False,
        obs_std: list[float] | None = None,
    ) -> None:
        if not 0.0 <= noise_prob <= 1.0:
            raise ConfigError(f"EnvNoise: noise_prob {noise_prob} must lie in [0, 1]")
        if noise_std < 0.0:
            raise ConfigError(f"EnvNoise: noise_std {noise_std} must not be negative")
        if obs_std is not None and not relative:
            raise ConfigError("EnvNoise: obs_std is used only with relative: true")
        self.actions, self.observations = actions, observations
        self.noise_prob, self.noise_std, self.relative, self.obs_std = (
            noise_prob,
            noise_std,
            relative,
            obs_std,
        )

    def apply(self, env: Env) -> Env:
        return NoisyEnv(env, self)


class NoisyEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The env behind a noisy sensor, a noisy actuator, or both."""

    constants = ("settings", "_obs_box", "_action_box", "_half_range", "_discrete")

    def __init__(self, env: Env, settings: EnvNoise) -> None:
        super().__init__(env)
        self.settings = settings
        self.generator = np.random.default_rng()
        obs_space, action_space = env.observation_space, env.action_space
        self.count = 0
        self.mean = self.square = np.zeros(0)
        if settings.observations:
            self._obs_box = _float_box(obs_space, "observation")
            self.mean = np.zeros(self._obs_box.shape)
            self.square = np.zeros(self._obs_box.shape)
            if settings.obs_std is not None and len(settings.obs_std) != self.mean.size:
                raise ConfigError(
                    f"EnvNoise: obs_std has {len(settings.obs_std)} entries, the observation {self.mean.size}"
                )
        self._discrete = isinstance(action_space, spaces.Discrete)
        if settings.actions and not self._discrete:
            self._action_box = _float_box(action_space, "action")
            low, high = self._action_box.low, self._action_box.high
            finite = np.isfinite(low) & np.isfinite(high)
            width = np.subtract(high, low, out=np.full(low.shape, 2.0, np.float64), where=finite)
            self._half_range = width / 2

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Reset:
        if seed is not None:
            self.generator = np.random.default_rng(np.random.SeedSequence([seed, 7919]))
        obs, info = self.env.reset(seed=seed, options=options)
        return self._observed(obs), info

    def step(self, action: Any) -> Step:
        if self.settings.actions and self._noise_occurs():
            action = self._noisy_action(action)
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._observed(obs), reward, terminated, truncated, info

    def _noisy_action(self, action: Any) -> Any:
        """A continuous action moved by noise; a discrete one replaced by any."""
        if self._discrete:
            space = self.env.action_space
            return int(self.generator.integers(space.n) + space.start)  # type: ignore[attr-defined]
        shaken = action + self.settings.noise_std * self._half_range * self.generator.standard_normal(
            action.shape
        )
        box = self._action_box
        return np.clip(shaken, box.low, box.high).astype(box.dtype)

    def _noise_occurs(self) -> bool:
        return bool(self.generator.random() < self.settings.noise_prob)

    def _observed(self, obs: NDArray[Any]) -> NDArray[Any]:
        if not self.settings.observations:
            return obs
        spread = self._spread(obs) if self.settings.relative else 1.0
        if not self._noise_occurs():
            return obs
        space = self._obs_box
        shaken = obs + self.settings.noise_std * spread * self.generator.standard_normal(obs.shape)
        return np.clip(shaken, space.low, space.high).astype(space.dtype)

    def _spread(self, obs: NDArray[Any]) -> NDArray[Any]:
        if self.settings.obs_std is not None:
            return np.asarray(self.settings.obs_std).reshape(obs.shape)
        self.count += 1
        delta = obs - self.mean
        self.mean = self.mean + delta / self.count
        self.square = self.square + delta * (obs - self.mean)
        return np.sqrt(self.square / self.count)


def _float_box(space: spaces.Space[Any], what: str) -> spaces.Box:
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return space
    raise ConfigError(f"Noise on the {what} needs a Box of floats, the env has {space}")
