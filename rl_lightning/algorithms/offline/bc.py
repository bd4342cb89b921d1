"""Behaviour cloning: the data's actions, learned as any other label."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.models.imitation_losses import ImitationLoss, MeanSquaredError, NegativeLogLikelihood
from rl_lightning.models.policies import PolicyNet, layout_of
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class BC(PolicyModule):
    """Clones the policy that made the data; continuous or discrete actions.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy.
        loss: What is lowered, and so which policy is learned; null: MeanSquaredError for continuous actions,
            NegativeLogLikelihood for discrete ones.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
    """

    learns_from = (Transitions,)
    takes_pictures_beside_vectors = True
    needs_columns = ()
    action_kinds = ("continuous", "discrete")

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        loss: ImitationLoss | None = None,
        normalize_obs: bool = True,
        lr: NonNegativeFloat = 3e-4,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        discrete = spec.action_kind == "discrete"
        self.loss = loss or (NegativeLogLikelihood() if discrete else MeanSquaredError())
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        self.policy: PolicyNet = self.loss.policy_class(discrete)(
            layout_of(spec, "BC"), spec.action_dim, hidden_dims or [256, 256], normalize_obs, network=network
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
        loss = (batch.weight * self.loss(self.policy, self.policy.norm(batch.obs), batch)).mean()
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/loss": loss}

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.policy.parameters(), self.lr)
