"""How likely a finished policy is to do what was done."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.models.network_policies import HeadPolicy
from rl_lightning.models.policies import (
    CategoricalPolicy,
    NormedPolicy,
    SquashedGaussianPolicy,
    TanhGaussianPolicy,
    UniformPolicy,
)

INSIDE = 1.0 - 1e-4  # recorded actions at a bound have no density under a squashed Gaussian


@torch.no_grad()
def log_likelihood(policy: Any, obs: Tensor, action: Tensor, name: str = "it") -> Tensor:
    """Log-probability of actions under the policy as it draws them; refused of one that draws nothing.

    Args:
        policy: As an artifact exports it.
        obs: [B, O]
        action: [B, A] in [-1, 1], or [B] whole numbers.
        name: What it is called, for the message.
    """
    if isinstance(policy, NormedPolicy):
        return log_likelihood(policy.get_submodule(policy.name), policy.norm(obs), action, name)
    if isinstance(policy, CategoricalPolicy):
        return policy(policy.norm(obs)).log_softmax(-1).gather(-1, action.long()[:, None])[:, 0]
    if isinstance(policy, SquashedGaussianPolicy | TanhGaussianPolicy):
        return policy.log_prob(policy.norm(obs), action.clamp(-INSIDE, INSIDE))
    if isinstance(policy, HeadPolicy):
        return policy.policy.evaluate(policy.policy(policy.torso(policy.norm(obs))), action)[0]
    if isinstance(policy, UniformPolicy) and not policy.discrete:
        return torch.full((len(obs),), -policy.action_dim * torch.tensor(2.0).log().item())
    raise ConfigError(
        f"{name}: a {type(policy).__name__} says of no action how likely it is, so nothing can be weighted by it; "
        "stochastic policies do (SAC, IQL, PPO, BC with loss NegativeLogLikelihood)"
    )
