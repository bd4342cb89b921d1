"""What behavior cloning lowers, and which policy each way asks for."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import categorical_log_prob
from rl_lightning.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    PolicyNet,
    SquashedGaussianPolicy,
)
from rl_lightning.types import Transitions

EDGE = 1.0 - 1e-5  # an action at its bound has an infinite pre-image


class ImitationLoss(ABC):
    """How far a policy is from the actions of the data."""

    @abstractmethod
    def policy_class(self, discrete: bool) -> type[PolicyNet]:
        """The policy that it teaches."""

    @abstractmethod
    def __call__(self, policy: PolicyNet, obs: Tensor, batch: Transitions) -> Tensor:
        """Of each row, given its normalised observation.  [B, O] -> [B]"""


class MeanSquaredError(ImitationLoss):
    """The error of one action per observation; continuous actions."""

    def policy_class(self, discrete: bool) -> type[PolicyNet]:
        if discrete:
            raise ConfigError(
                "model.loss MeanSquaredError needs continuous actions; leave it out for discrete ones"
            )
        return DeterministicPolicy

    def __call__(self, policy: PolicyNet, obs: Tensor, batch: Transitions) -> Tensor:
        return F.mse_loss(policy(obs), batch.action, reduction="none").mean(-1)


class NegativeLogLikelihood(ImitationLoss):
    """The likelihood of the data's actions: under a squashed Gaussian, or of the classes of discrete ones."""

    def policy_class(self, discrete: bool) -> type[PolicyNet]:
        return CategoricalPolicy if discrete else SquashedGaussianPolicy

    def __call__(self, policy: PolicyNet, obs: Tensor, batch: Transitions) -> Tensor:
        if isinstance(policy, SquashedGaussianPolicy):
            return -policy.log_prob(obs, batch.action.clamp(-EDGE, EDGE))
        return -categorical_log_prob(policy(obs), batch.action, batch.mask)
