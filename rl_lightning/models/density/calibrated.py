"""A density with its inputs and its thresholds: the one path that training, calibration and imagination score by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.functional.density_penalties import POINTS, percentile_of, quantile_grid
from rl_lightning.models.density.density_model import DensityFactory, DensityModel
from rl_lightning.models.described import rebuild

LEAST, GREATEST = -1e6, 1e6  # a score is a finite number within these
INPUTS = ("obs_action", "next_obs_action", "obs_action_next_obs", "action_reward")


class CalibratedDensity(nn.Module):
    """Scores rows of experience, and knows how held-out rows score.

    Args:
        density_model: What makes the density model, written down.
        obs_dim: Width of an observation.
        action_dim: Width of a flat action; the sum of the classes where actions are discrete.
        density_of: What a row is made of: obs_action, next_obs_action, obs_action_next_obs or action_reward.
        action_sizes: Classes of each discrete component of an action; empty where actions are continuous.
    """

    mean: Tensor
    std: Tensor
    quantiles: Tensor
    calibrated: Tensor

    def __init__(
        self,
        density_model: dict[str, Any],
        obs_dim: int,
        action_dim: int,
        density_of: str = "next_obs_action",
        action_sizes: list[int] | None = None,
    ) -> None:
        super().__init__()
        if density_of not in INPUTS:
            raise ConfigError(f"input '{density_of}' is unknown; choose one of {', '.join(INPUTS)}")
        self.density_of, self.action_sizes = density_of, list(action_sizes or [])
        observed = {"action_reward": 1, "obs_action_next_obs": 2 * obs_dim}
        self.dim = action_dim + observed.get(density_of, obs_dim)
        factory = rebuild(density_model, "the density", DensityFactory)
        self.net: DensityModel = make(factory, DensityModel, "density_model", self.dim)
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))
        self.register_buffer("quantiles", torch.zeros(POINTS))
        self.register_buffer("calibrated", torch.zeros((), dtype=torch.bool))

    @property
    def trains(self) -> bool:
        return self.net.trains

    def rows(self, obs: Tensor, action: Tensor, next_obs: Tensor, reward: Tensor) -> Tensor:
        """What the density is a density of: [B, ...] of each -> [B, D]."""
        count = len(reward)
        flat = self._flat_action(action).reshape(count, -1)
        parts = {
            "obs_action": (obs, flat),
            "next_obs_action": (next_obs, flat),
            "obs_action_next_obs": (obs, flat, next_obs),
            "action_reward": (flat, reward),
        }[self.density_of]
        return torch.cat([part.reshape(count, -1).float() for part in parts], -1)

    def _flat_action(self, action: Tensor) -> Tensor:
        if not self.action_sizes:
            return action
        classes = action.long().reshape(len(action), len(self.action_sizes))
        return torch.cat([one_hot(classes[:, i], size) for i, size in enumerate(self.action_sizes)], -1)

    @torch.no_grad()
    def score(self, x: Tensor) -> Tensor:
        """Log-density of rows [B, D] -> [B], finite whatever the row; one that is not a number scores lowest."""
        return self.net.score(x).nan_to_num(nan=LEAST).clamp(LEAST, GREATEST)

    @torch.no_grad()
    def calibrate(self, x: Tensor) -> None:
        """Takes the scores of held-out rows [N, D] as what to expect of rows from inside."""
        scores = self.score(x).double()
        grid = quantile_grid(scores)
        # a single row far outside must not set the scale of all penalties
        usual = scores.clamp(percentile_of(grid, 0.1), percentile_of(grid, 99.9))
        self.quantiles.copy_(grid)
        self.mean.copy_(usual.mean())
        self.std.copy_(usual.std(correction=0).clamp_min(1e-6))
        self.calibrated.fill_(True)

    def threshold(self, percentile: float) -> Tensor:
        """The score below which this percentage of held-out rows lies."""
        if not self.calibrated:
            raise ConfigError("this density was never calibrated: train its stage up to its first evaluation")
        if not 0.0 <= percentile <= 100.0:
            raise ConfigError(f"percentile is {percentile}; it lies between 0 and 100")
        return percentile_of(self.quantiles, percentile)
