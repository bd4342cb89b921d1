"""Behaviour cloning: the data's actions, learned as any other label."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import categorical_log_prob
from rl_lightning.models.policies import (
    CategoricalPolicy,
    DeterministicPolicy,
    PolicyNet,
    SquashedGaussianPolicy,
    flat_width,
)
from rl_lightning.nn.make_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.types import Carry, EnvSpec, Transitions

EDGE = 1.0 - 1e-5  # an action at its bound has an infinite pre-image


class BC(PolicyModule):
    """Clones the policy that made the data; continuous or discrete actions.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy.
        loss: mse (error of one action per observation) or nll (density of a squashed Gaussian; of the classes for
            discrete actions); null: mse for continuous actions, nll for discrete ones.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous", "discrete")

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[int] | None = None,
        loss: str | None = None,
        normalize_obs: bool = True,
        lr: float = 3e-4,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: float | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        discrete = spec.action_kind == "discrete"
        self.loss = loss or ("nll" if discrete else "mse")
        if self.loss not in ("mse", "nll"):
            raise ConfigError(f"model.loss is '{loss}'; choose mse or nll")
        if discrete and self.loss == "mse":
            raise ConfigError("model.loss mse needs continuous actions; leave it out for discrete ones")
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm
        gaussian = SquashedGaussianPolicy if self.loss == "nll" else DeterministicPolicy
        kind = CategoricalPolicy if discrete else gaussian
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        self.policy: PolicyNet = kind(
            flat_width(spec, "BC"), spec.action_dim, hidden_dims or [256, 256], normalize_obs, network=network
        )

    def on_fit_start(self) -> None:
        self.policy.fit_norm(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        if generator is None:
            return self.policy.greedy(obs, mask), carry
        return self.policy.sample(obs, generator, mask), carry

    def update(self, batch: Transitions) -> Metrics:
        loss = (batch.weight * self._cost(self.policy.norm(batch.obs), batch)).mean()
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/loss": loss}

    def _cost(self, obs: Tensor, batch: Transitions) -> Tensor:  # -> [B]
        if isinstance(self.policy, CategoricalPolicy):
            return -categorical_log_prob(self.policy(obs), batch.action, batch.mask)
        if isinstance(self.policy, SquashedGaussianPolicy):
            return -self.policy.log_prob(obs, batch.action.clamp(-EDGE, EDGE))
        return F.mse_loss(self.policy(obs), batch.action, reduction="none").mean(-1)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.policy.parameters(), self.lr)
