"""Policy heads: features to the parameters of an action distribution, and what is done with those parameters.

A head's `params` describe the distribution fully: sampling, log-probabilities and entropy need nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional import action_distributions
from rl_lightning.kernels.choice import is_hooked
from rl_lightning.kernels.squashed_gaussian import squashed_gaussian
from rl_lightning.nn.init import orthogonal_
from rl_lightning.nn.mlp import through_head
from rl_lightning.nn.torso import FeedForward
from rl_lightning.types import EnvSpec

POLICY_GAIN = 0.01  # a new policy is almost uniform


class PolicyHead(nn.Module):
    """An action distribution on top of features [..., F]."""

    params_dim: int

    def forward(self, features: Tensor) -> Tensor:  # [..., F] -> [..., P]
        raise NotImplementedError

    def sample(self, params: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def mode(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(log-probability of the action, entropy), sharing what both need.  -> [...], [...]"""
        raise NotImplementedError

    def log_prob(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.evaluate(params, action, mask)[0]

    def entropy(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        raise NotImplementedError


class CategoricalHead(PolicyHead):
    """One of A actions; params are logits [..., A], an action is an integer [...]."""

    def __init__(self, in_dim: int, actions: int) -> None:
        super().__init__()
        self.params_dim = actions
        self.linear = nn.Linear(in_dim, actions)
        orthogonal_(self.linear, POLICY_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(features)

    def sample(self, params: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        return action_distributions.categorical_sample(params, generator, mask)

    def mode(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return action_distributions.mask_logits(params, mask).argmax(-1)

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return action_distributions.categorical_evaluate(params, action, mask)

    def log_prob(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
        return action_distributions.categorical_log_prob(params, action, mask)

    def entropy(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return action_distributions.categorical_entropy(params, mask)


class MultiCategoricalHead(PolicyHead):
    """K independent choices; params are their logits [..., sum(sizes)], an action is integers [..., K]."""

    def __init__(self, in_dim: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = list(sizes)
        self.params_dim = sum(self.sizes)
        self.linear = nn.Linear(in_dim, self.params_dim)
        orthogonal_(self.linear, POLICY_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(features)

    def _split(self, params: Tensor, mask: Tensor | None) -> tuple[Tensor, ...]:
        return action_distributions.mask_logits(params, mask).split(self.sizes, -1)

    def sample(self, params: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        parts = self._split(params, mask)
        return torch.stack([action_distributions.categorical_sample(part, generator) for part in parts], -1)

    def mode(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.stack([part.argmax(-1) for part in self._split(params, mask)], -1)

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        parts = zip(self._split(params, mask), action.unbind(-1), strict=True)
        log_probs, entropies = zip(
            *(action_distributions.categorical_evaluate(*pair) for pair in parts), strict=True
        )
        return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)

    def entropy(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return torch.stack(
            [action_distributions.categorical_entropy(part) for part in self._split(params, mask)]
        ).sum(0)


class GaussianHead(PolicyHead):
    """A diagonal Gaussian whose log-std is a parameter of its own; params are (mean, log_std) [..., 2A]."""

    def __init__(self, in_dim: int, action_dim: int, log_std_init: float = 0.0) -> None:
        super().__init__()
        self.params_dim = 2 * action_dim
        self.linear = nn.Linear(in_dim, action_dim)
        self.log_std = nn.Parameter(torch.full((action_dim,), float(log_std_init)))
        orthogonal_(self.linear, POLICY_GAIN)

    def forward(self, features: Tensor) -> Tensor:
        mean = self.linear(features)
        return torch.cat((mean, self.log_std.expand_as(mean)), -1)

    def sample(self, params: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        mean, log_std = params.chunk(2, -1)
        return action_distributions.gaussian_sample(
            mean, log_std, action_distributions.standard_noise(mean.shape, generator, mean)
        )

    def mode(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return params.chunk(2, -1)[0]

    def evaluate(self, params: Tensor, action: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        mean, log_std = params.chunk(2, -1)
        return action_distributions.gaussian_log_prob(
            mean, log_std, action
        ), action_distributions.gaussian_entropy(log_std)

    def entropy(self, params: Tensor, mask: Tensor | None = None) -> Tensor:
        return action_distributions.gaussian_entropy(params.chunk(2, -1)[1])


def make_policy_head(spec: EnvSpec, in_dim: int, log_std_init: float = 0.0) -> PolicyHead:
    """The head that fits the env's actions."""
    if spec.action_kind == "discrete":
        return CategoricalHead(in_dim, spec.action_sizes[0])
    if spec.action_kind == "multi_discrete":
        return MultiCategoricalHead(in_dim, spec.action_sizes)
    if spec.action_kind == "continuous":
        return GaussianHead(in_dim, spec.action_dim, log_std_init)
    raise ConfigError(f"{spec.env_id}: no policy for actions of kind '{spec.action_kind}'.")


def raw_log_std(log_std: float, bounds: tuple[float, float]) -> float:
    """The number that `bounded_log_std` makes this log-std of."""
    low, high = bounds
    if not low < log_std < high:
        raise ConfigError(f"log_std_init is {log_std}; it must lie between {low} and {high}")
    return math.atanh(2.0 * (log_std - low) / (high - low) - 1.0)


class SquashedGaussianActor(nn.Module):
    """Mean and log-std of a Gaussian before tanh, both from the observation.  [B, *O] -> [B, A], [B, A]

    Args:
        torso: Encodes observations.
        action_dim: Width of an action.
        log_std_bounds: Lowest and highest log-std, approached softly so that the gradient never dies.
        log_std_init: Where it starts; None: in the middle.
    """

    def __init__(
        self,
        torso: FeedForward,
        action_dim: int,
        log_std_bounds: tuple[float, float] = (-5.0, 2.0),
        log_std_init: float | None = None,
    ) -> None:
        super().__init__()
        self.torso = torso
        self.linear = nn.Linear(torso.out_dim, 2 * action_dim)
        self.log_std_bounds = log_std_bounds
        if log_std_init is not None:
            with torch.no_grad():
                self.linear.bias[action_dim:] += raw_log_std(log_std_init, log_std_bounds)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = through_head(self.torso, self.linear, obs).chunk(2, -1)
        return mean, action_distributions.bounded_log_std(raw, self.log_std_bounds)

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """An action for each observation and its log-probability, differentiable.  [B, *O] -> [B, A], [B]"""
        shape, like = (len(obs), self.linear.out_features // 2), self.linear.weight
        noise = torch.randn(shape, generator=generator, device=like.device, dtype=like.dtype)
        if is_hooked((self,)):
            mean, log_std = self(obs)
            return action_distributions.squashed_sample(mean, log_std, noise)
        return squashed_gaussian(through_head(self.torso, self.linear, obs), noise, self.log_std_bounds)
