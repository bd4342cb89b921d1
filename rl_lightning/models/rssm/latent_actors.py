"""Policies on latent features, as rows that a world model takes: one-hot for discrete actions, [-1, 1] for others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional import latent
from rl_lightning.functional.action_distributions import (
    LOG_2PI,
    gaussian_log_prob,
    mask_logits,
    squashed_log_prob,
    standard_noise,
)
from rl_lightning.kernels.straight_through import straight_through
from rl_lightning.nn.dense import DenseStack
from rl_lightning.nn.init import check_sizes
from rl_lightning.ranges import PositiveInt
from rl_lightning.types import EnvSpec


class ActionDistribution:
    """A family of action distributions; parameters are flat rows [..., P], a draw is an action row [..., A]."""

    continuous = True

    def params_dim(self, spec: EnvSpec) -> int:
        return 2 * spec.action_dim

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What `sample` needs."""
        return (
            like.new_empty(shape).normal_() if generator is None else standard_noise(shape, generator, like)
        )

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """A draw with a gradient."""
        raise NotImplementedError

    def mode(self, params: Tensor) -> Tensor:
        raise NotImplementedError

    def log_prob(self, params: Tensor, action: Tensor) -> Tensor:  # -> [...]
        raise NotImplementedError

    def entropy(self, params: Tensor) -> Tensor:
        raise NotImplementedError


class TanhNormal(ActionDistribution):
    """A Gaussian squashed by tanh, its mean held in bounds (Dreamer v1). Its entropy is estimated by one draw.

    Args:
        mean_scale: The mean before tanh stays within plus and minus this.
        init_std: Standard deviation before tanh at the start.
        min_std: Smallest standard deviation.
    """

    def __init__(self, mean_scale: float = 5.0, init_std: float = 5.0, min_std: float = 1e-4) -> None:
        self.mean_scale, self.init_std, self.min_std = mean_scale, init_std, min_std
        self.raw_init = math.log(math.expm1(init_std))

    def split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = params.chunk(2, -1)
        return self.mean_scale * torch.tanh(mean / self.mean_scale), F.softplus(
            raw + self.raw_init
        ) + self.min_std

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        mean, std = self.split(params)
        return torch.tanh(torch.addcmul(mean, std, noise))

    def mode(self, params: Tensor) -> Tensor:
        return torch.tanh(self.split(params)[0])

    def log_prob(self, params: Tensor, action: Tensor) -> Tensor:
        mean, std = self.split(params)
        return squashed_log_prob(mean, std.log(), action)

    def entropy(self, params: Tensor) -> Tensor:
        noise = torch.randn_like(params.chunk(2, -1)[0])
        return -self.log_prob(params, self.sample(params, noise))


class TruncatedNormal(ActionDistribution):
    """A Gaussian cut off at -1 and 1 (Dreamer v2).

    Args:
        min_std: Smallest standard deviation; the largest is min_std + 2.
    """

    def __init__(self, min_std: float = 0.1) -> None:
        self.min_std = min_std

    def split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = params.chunk(2, -1)
        return torch.tanh(mean), 2.0 * torch.sigmoid(0.5 * raw) + self.min_std

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if generator is None:
            return like.new_empty(shape).uniform_()
        return torch.rand(shape, generator=generator, device=generator.device).to(like)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        return latent.truncated_normal_sample(*self.split(params), noise)

    def mode(self, params: Tensor) -> Tensor:
        return self.split(params)[0]

    def log_prob(self, params: Tensor, action: Tensor) -> Tensor:
        return latent.truncated_normal_log_prob(*self.split(params), action)

    def entropy(self, params: Tensor) -> Tensor:
        return latent.truncated_normal_entropy(*self.split(params))


class BoundedNormal(ActionDistribution):
    """A Gaussian with its mean in (-1, 1) and a bounded width (Dreamer v3); what goes beyond is clipped when acting.

    Args:
        min_std: Smallest standard deviation.
        max_std: Largest standard deviation.
    """

    def __init__(self, min_std: float = 0.1, max_std: float = 1.0) -> None:
        self.min_std, self.max_std = min_std, max_std

    def split(self, params: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = params.chunk(2, -1)
        return torch.tanh(mean), self.min_std + (self.max_std - self.min_std) * torch.sigmoid(raw + 2.0)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        mean, std = self.split(params)
        return torch.addcmul(mean, std, noise)

    def mode(self, params: Tensor) -> Tensor:
        return self.split(params)[0]

    def log_prob(self, params: Tensor, action: Tensor) -> Tensor:
        mean, std = self.split(params)
        return gaussian_log_prob(mean, std.log(), action)

    def entropy(self, params: Tensor) -> Tensor:
        return (self.split(params)[1].log() + 0.5 * (1.0 + LOG_2PI)).sum(-1)


class OneHot(ActionDistribution):
    """One class of each discrete component, with straight-through gradients.

    Args:
        unimix: Fraction of a uniform distribution mixed in (0.01 in v3).
    """

    continuous = False

    def __init__(self, unimix: float = 0.01) -> None:
        self.unimix = unimix
        self.sizes: Sequence[int] = ()

    def params_dim(self, spec: EnvSpec) -> int:
        self.sizes = spec.action_sizes
        return spec.action_dim

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if generator is None:
            return latent.gumbel(like.new_empty(shape).exponential_())
        return latent.gumbel(
            torch.empty(shape, device=generator.device).exponential_(generator=generator)
        ).to(like)

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        pairs = zip(params.split(self.sizes, -1), noise.split(self.sizes, -1), strict=True)
        return torch.cat([straight_through(logits, extra, self.unimix) for logits, extra in pairs], -1)

    def mode(self, params: Tensor) -> Tensor:
        hots = [straight_through(logits, 0.0, self.unimix) for logits in params.split(self.sizes, -1)]
        return torch.cat(hots, -1)

    def log_probs(self, params: Tensor) -> Tensor:
        return torch.cat([latent.unimix(logits, self.unimix) for logits in params.split(self.sizes, -1)], -1)

    def log_prob(self, params: Tensor, action: Tensor) -> Tensor:
        return (self.log_probs(params) * action).sum(-1)

    def entropy(self, params: Tensor) -> Tensor:
        log_probs = self.log_probs(params)
        return -(log_probs.exp() * log_probs).sum(-1)


class ActorHead(nn.Module):
    """A policy on latent features: the parameters of an action distribution, and action rows drawn of it.

    Args:
        hidden_dims: Width of each layer.
        distribution: Of the actions; null: BoundedNormal, or OneHot where actions are discrete.
        norm: layer, rms or none.
        activation: Of each layer.
        zero_init_last: The last layer starts at zero: all discrete actions alike, continuous ones around 0.
    """

    def __init__(
        self,
        feature_dim: int,
        spec: EnvSpec,
        /,
        hidden_dims: list[PositiveInt] = [64, 64],  # noqa: B006
        distribution: ActionDistribution | None = None,
        norm: str = "none",
        activation: str = "elu",
        zero_init_last: bool = True,
    ) -> None:
        super().__init__()
        continuous = spec.action_kind == "continuous"
        distribution = distribution or (BoundedNormal() if continuous else OneHot())
        if distribution.continuous != continuous:
            fits = "BoundedNormal, TruncatedNormal or TanhNormal" if continuous else "OneHot"
            raise ConfigError(
                f"{type(distribution).__name__} does not fit the {spec.action_kind.replace('_', '-')} actions of "
                f"{spec.env_id}; set model.actor.distribution to {fits}, or leave it out"
            )
        self.distribution, self.spec = distribution, spec
        hidden_dims, out_dim = check_sizes("hidden_dims", hidden_dims), distribution.params_dim(spec)
        self.net = DenseStack(feature_dim, hidden_dims, out_dim, norm, activation, zero_init_last)

    def forward(self, feature: Tensor) -> Tensor:
        return self.net(feature)

    def choose(
        self, feature: Tensor, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> Tensor:
        """An action row for each feature, within bounds; the likeliest without a generator. [N, F] -> [N, A]"""
        params = self(feature)
        if mask is not None:
            params = mask_logits(params, mask)
        if generator is None:
            return clip_straight_through(self.distribution.mode(params))
        shape = (len(feature), self.spec.action_dim)
        noise = self.distribution.noise(shape, params, generator)
        if mask is not None:
            noise = noise.masked_fill(
                ~mask, torch.finfo(noise.dtype).min
            )  # unimix would let an illegal one win
        return clip_straight_through(self.distribution.sample(params, noise))


# Makes a policy on features of this width, for envs like this.
ActorHeadFactory = Callable[[int, EnvSpec], ActorHead]


def clip_straight_through(action: Tensor) -> Tensor:
    """Clipped to [-1, 1], with the gradient of what was not."""
    return action + (action.clamp(-1.0, 1.0) - action).detach()


def action_rows(spec: EnvSpec, action: Tensor) -> Tensor:
    """Actions as buffers keep them, as rows: one-hot for each discrete component.  [...] or [..., K] -> [..., A]"""
    if spec.action_kind == "continuous":
        return action.float().flatten(action.dim() - len(spec.action_shape))
    parts = (action.unsqueeze(-1) if spec.action_kind == "discrete" else action).unbind(-1)
    hots = [F.one_hot(part.long(), size) for part, size in zip(parts, spec.action_sizes, strict=True)]
    return torch.cat(hots, -1).float()


def env_actions(spec: EnvSpec, rows: Tensor) -> Tensor:
    """Rows as an env takes them: the inverse of `action_rows`."""
    if spec.action_kind == "continuous":
        return rows.unflatten(-1, spec.action_shape)
    chosen = [part.argmax(-1) for part in rows.split(spec.action_sizes, -1)]
    return chosen[0] if spec.action_kind == "discrete" else torch.stack(chosen, -1)
