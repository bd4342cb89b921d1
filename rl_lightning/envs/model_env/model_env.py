"""One learned env for Gymnasium: signals in the data's own units, actions within the bounds that the data tell."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.model_env.learned_env import ModelSettings, learned_env
from rl_lightning.envs.model_env.strip_chart import strip_chart
from rl_lightning.envs.termination import Termination
from rl_lightning.errors import ConfigError

Row = NDArray[np.float32]


class ModelEnv(gymnasium.Env[Row, Row]):
    """What a finished dynamics stage predicts, as an env that any algorithm can act in. `info` says of every step
    whether it lies below the density's threshold (`ood_fraction`) and how far the elites disagree.

    Args:
        dynamics: Artifact of a dynamics stage.
        density: Artifact of a density stage; null: nothing is said of how likely a step is.
        dataset: Where episodes start; null: what the dynamics were learned from.
        termination: When an episode ends: a rule, or the name of its class; null: by the data set's env, or never where
            no recorded row is terminal.
        horizon: Steps after which an episode is cut; null: the data set's time limit, or its longest episode.
        percentile: Percentage of held-out rows that lie below the density's threshold.
        starts: First observations of held-out episodes, or any held-out row.
        render_mode: `rgb_array` draws the signals as a strip chart.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium's own pattern)
    tracked = ("ood_fraction", "disagreement")  # averaged over an episode

    def __init__(
        self,
        dynamics: str = "",
        density: str | None = None,
        dataset: str | None = None,
        termination: Termination | str | None = None,
        horizon: int | None = None,
        percentile: float = 1.0,
        starts: Literal["episodes", "rows"] = "episodes",
        render_mode: str | None = None,
    ) -> None:
        if not dynamics:
            raise ConfigError(
                "rl/Model-v0 is made of a dynamics artifact; name one: "
                "--data.env.kwargs '{dynamics: RUN/dynamics}'"
            )
        self.render_mode = render_mode
        self.world = learned_env(
            ModelSettings(dynamics, density, dataset, termination, horizon, percentile, starts)
        )
        spec = self.world.spec
        self.time_limit = self.world.horizon
        self.observation_space = spaces.Box(-np.inf, np.inf, spec.obs_shape, np.float32)
        self.low, self.high = (np.array(side, np.float32) for side in (spec.action_low, spec.action_high))
        self.action_space = spaces.Box(self.low, self.high, dtype=np.float32)
        self.generator = torch.Generator()
        self.obs, self.age = torch.zeros(1, *spec.obs_shape), 0
        self.trace: list[Row] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Row, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.generator.manual_seed(seed)
        self.obs, self.age = self.world.draw(1, self.generator), 0
        self.trace = []
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Row, float, bool, bool, dict[str, Any]]:
        unit = 2.0 * (np.asarray(action, np.float32) - self.low) / (self.high - self.low) - 1.0
        row = torch.from_numpy(np.clip(unit, -1.0, 1.0)).reshape(1, -1)
        step = self.world.step(self.obs, row, self.generator)
        self.obs, self.age = step.next_obs, self.age + 1
        ended = bool(step.terminated)
        info: dict[str, Any] = {"disagreement": float(step.disagreement)}
        if self.world.density is not None:
            info["ood_fraction"] = float(step.below)
        return self._seen(), float(step.reward), ended, not ended and self.age >= self.time_limit, info

    def _seen(self) -> Row:
        seen: Row = self.obs[0].numpy().copy()
        if self.render_mode is not None:
            self.trace.append(seen)
        return seen

    def render(self) -> NDArray[np.uint8] | None:
        if self.render_mode != "rgb_array":
            return None
        dynamics, width = self.world.dynamics, self.world.spec.obs_shape[0]
        scale = (dynamics.input_mean[:width].numpy(), dynamics.input_std[:width].numpy())
        return strip_chart(np.stack(self.trace), *scale, self.time_limit)

    def get_state(self) -> dict[str, Any]:
        """Where the episode stands, in plain values."""
        return {
            "obs": self.obs.numpy().copy(),
            "age": self.age,
            "draw": self.generator.get_state().numpy().copy(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.obs, self.age = torch.from_numpy(np.array(state["obs"], np.float32)), int(state["age"])
        self.generator.set_state(torch.from_numpy(np.array(state["draw"], np.uint8)))
