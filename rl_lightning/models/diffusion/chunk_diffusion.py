"""Stretches of actions given the last observations, as a diffusion model; normalisers and picture encoder inside."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.functional.diffusion_solvers import SolverStep, add_noise, denoising_loss, solve
from rl_lightning.functional.noise_schedules import NoiseSchedule
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, make_denoiser
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.torso import Network, Shape
from rl_lightning.observations import ObsLayout


class MinMaxNormalizer(nn.Module):
    """Each column of a data set onto [-1, 1]; a constant one onto 0. The identity until it has seen data.

    Args:
        width: Number of columns.
    """

    middle: Tensor
    half_range: Tensor
    fitted: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("middle", torch.zeros(width))
        self.register_buffer("half_range", torch.ones(width))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def fit(self, rows: Tensor) -> None:  # [N, D]
        low, high = rows.amin(0), rows.amax(0)
        self.middle.copy_((low + high) / 2)
        self.half_range.copy_(torch.where(high - low > 1e-6, (high - low) / 2, 1.0))
        self.fitted.fill_(True)

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.middle) / self.half_range

    def inverse(self, rows: Tensor) -> Tensor:
        return rows * self.half_range + self.middle


class ChunkDiffusion(nn.Module):
    """`horizon` actions given `n_obs_steps` observations.

    Args:
        obs_shape: Of one observation, or its parts.
        action_dim: Width of an action.
        n_obs_steps: Observations that are seen.
        horizon: Actions of a stretch.
        denoiser: What makes the network.
        noise_schedule: How noise grows.
        obs_encoder: What makes features of a picture; flat observations are normalised instead.
    """

    def __init__(
        self,
        obs_shape: Shape,
        action_dim: int,
        n_obs_steps: int,
        horizon: int,
        denoiser: DenoiserFactory,
        noise_schedule: NoiseSchedule,
        obs_encoder: Network | None = None,
    ) -> None:
        super().__init__()
        self.noise_schedule = noise_schedule
        self.event = (horizon, action_dim)
        self.obs_encoder: nn.Module | None = (
            None if obs_encoder is None else make_feed_forward(obs_encoder, obs_shape, "obs_encoder")
        )
        flat = obs_shape.width if isinstance(obs_shape, ObsLayout) else math.prod(obs_shape)
        width = flat if self.obs_encoder is None else int(self.obs_encoder.out_dim)
        self.obs_norm: nn.Module = MinMaxNormalizer(width) if self.obs_encoder is None else nn.Identity()
        self.action_norm = MinMaxNormalizer(action_dim)
        self.net = make_denoiser(denoiser, self.event, n_obs_steps * width)

    @property
    def fitted(self) -> bool:
        return bool(self.action_norm.fitted)

    def fit(self, obs: Tensor, action: Tensor) -> None:
        """Takes the ranges of the data's rows, each counted once."""
        self.action_norm.fit(action)
        if isinstance(self.obs_norm, MinMaxNormalizer):
            self.obs_norm.fit(obs.flatten(1))

    def condition(self, obs: Tensor) -> Tensor:  # [B, T, *O] -> [B, T * F]
        if self.obs_encoder is not None:
            return self.obs_encoder(obs).flatten(1)
        return self.obs_norm(obs.flatten(2)).flatten(1)

    def loss(self, obs: Tensor, action: Tensor, share: Tensor, noise: Tensor) -> Tensor:
        time = self.noise_schedule.sample_t(share)
        rows = add_noise(self.noise_schedule, self.action_norm(action), time, noise)
        return denoising_loss(self.net(rows, time, self.condition(obs)), noise) / math.prod(self.event)

    def sample(
        self, obs: Tensor, moves: Sequence[SolverStep], generator: torch.Generator, clip: float | None
    ) -> Tensor:
        """Actions for observations [B, T, *O] -> [B, H, A], in the data's own units."""
        cond = self.condition(obs)

        def eps(x: Tensor, time: float) -> Tensor:
            return self.net(x, torch.full((1,), time, device=x.device), cond)

        def fresh(like: Tensor) -> Tensor:
            return standard_noise(like.shape, generator, like)

        start = standard_noise((len(cond), *self.event), generator, cond)
        return self.action_norm.inverse(solve(eps, start, moves, clip, fresh))
