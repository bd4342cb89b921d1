"""Distributions learned by diffusion: rows given a condition, and actions given an observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.functional.diffusion_solvers import EpsFn, SolverStep, add_noise, denoising_loss, solve
from rl_lightning.functional.noise_schedules import NoiseSchedule
from rl_lightning.models.described import describe, rebuild
from rl_lightning.models.policies import ObsNormalizer
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, make_denoiser

GuidanceFn = Callable[[EpsFn], EpsFn]  # turns what finds the noise into what finds it under guidance


def sample_timestep(rows: Tensor, power: float) -> Tensor:
    """A number of [0, 1) for each row; a power above 1 looks more often at little noise."""
    return torch.rand(len(rows), device=rows.device) ** power


class ActionDiffusion(nn.Module):
    """Actions as a data set has them, given an observation.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        denoiser: What makes the network, written down.
        noise_schedule: How noise grows, written down.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        denoiser: dict[str, Any],
        noise_schedule: dict[str, Any],
        normalize_obs: bool = False,
    ) -> None:
        super().__init__()
        self.init_args = {
            "obs_dim": obs_dim,
            "action_dim": action_dim,
            "denoiser": denoiser,
            "noise_schedule": noise_schedule,
            "normalize_obs": normalize_obs,
        }
        self.action_dim = action_dim
        self.noise_schedule: NoiseSchedule = rebuild(noise_schedule, "the noise schedule", NoiseSchedule)
        self.norm: nn.Module = ObsNormalizer(obs_dim) if normalize_obs else nn.Identity()
        factory: DenoiserFactory = rebuild(denoiser, "the denoiser", DenoiserFactory)
        self.net = make_denoiser(factory, (action_dim,), obs_dim)

    @classmethod
    def of(
        cls,
        obs_dim: int,
        action_dim: int,
        denoiser: DenoiserFactory,
        schedule: NoiseSchedule,
        normalize_obs: bool,
    ) -> ActionDiffusion:
        return cls(obs_dim, action_dim, describe(denoiser), describe(schedule), normalize_obs)

    def loss(self, obs: Tensor, action: Tensor, share: Tensor, noise: Tensor) -> Tensor:
        """Squared error of the noise predicted in actions [B, A] at times that belong to `share` [B] of [0, 1)."""
        time = self.noise_schedule.sample_t(share)
        eps_pred = self.net(add_noise(self.noise_schedule, action, time, noise), time, self.norm(obs))
        return denoising_loss(eps_pred, noise)

    def eps_fn(self, obs: Tensor) -> EpsFn:
        """What finds the noise in K candidates [B, K, A] for each observation [B, O]."""
        dtype = next(self.net.parameters()).dtype
        cond = self.norm(obs).to(dtype).unsqueeze(1)

        def eps(x: Tensor, time: float) -> Tensor:
            eps_pred = self.net(x.to(dtype), torch.full((1, 1), time, device=x.device), cond)
            return eps_pred.to(x.dtype)

        return eps

    def sample(
        self,
        obs: Tensor,
        count: int,
        moves: Sequence[SolverStep],
        generator: torch.Generator,
        clip: float | None = None,
        lean: GuidanceFn | None = None,
    ) -> Tensor:
        """`count` actions for each observation, drawn from the generator, not clipped.  [B, O] -> [B, K, A]"""

        def fresh(like: Tensor) -> Tensor:
            return standard_noise(like.shape, generator, like)

        start = standard_noise((len(obs), count, self.action_dim), generator, obs)
        eps = self.eps_fn(obs)
        return solve(lean(eps) if lean is not None else eps, start, moves, clip, fresh)

    def exported(self, prefix: str) -> Exported:
        return Exported(f"{type(self).__module__}.{type(self).__qualname__}", self.init_args, prefix)
