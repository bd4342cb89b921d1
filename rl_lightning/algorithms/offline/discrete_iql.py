"""Implicit Q-learning (Kostrikov et al. 2021) for discrete actions."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import categorical_log_prob
from rl_lightning.functional.value import exp_advantage_weight, expectile_loss, polyak_update, td_target
from rl_lightning.models.policies import CategoricalPolicy, layout_of
from rl_lightning.nn.heads.critics import DiscreteQEnsemble, with_output
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.observations import ObsLayout
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiscreteIQL(PolicyModule):
    """State values as a high expectile over the data's actions, then cloning weighted by advantage.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy.
        critic_hidden_dims: Hidden sizes of the critics and of the state value; null: as the policy.
        num_critics: How many critics are kept; the lowest counts.
        expectile: Which expectile of the critics' values a state is worth; 0.5 is the mean, towards 1 the best.
        beta: How sharply cloning prefers better actions, in units of 1 / reward; 0 clones all alike.
        max_weight: Largest weight of a row in cloning.
        tau: Fraction of the critics that the targets take over at each update.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics and of the state value; null: as the policy.
        lr_schedule: How the policy's learning rate changes over the run; null: it does not.
        optimizer: The optimizer of all three, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
        critic_network: What turns an observation into the features of a critic and of the state value, instead of
            `critic_hidden_dims`.
    """

    learns_from = (Transitions,)
    takes_pictures_beside_vectors = True
    action_kinds = ("discrete",)

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 2,
        expectile: float = 0.7,
        beta: float = 3.0,
        max_weight: PositiveFloat = 100.0,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        normalize_obs: bool = False,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        if not 0.0 < expectile < 1.0:
            raise ConfigError(f"model.expectile is {expectile}; it must lie between 0 and 1")
        self.expectile, self.beta, self.max_weight = expectile, beta, max_weight
        self.tau, self.gamma, self.max_grad_norm = tau, gamma, max_grad_norm
        self.lr, self.critic_lr, self.lr_schedule = lr, critic_lr or lr, lr_schedule or Constant()
        self.optimizer = optimizer or Adam
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        seen, hidden_dims = layout_of(spec, "DiscreteIQL"), hidden_dims or [256, 256]
        self.policy = CategoricalPolicy(seen, spec.action_dim, hidden_dims, normalize_obs, network=network)
        critic = critic_network or partial(
            MLP, hidden_dims=critic_hidden_dims or hidden_dims, activation="relu", init="default"
        )
        layout = seen if isinstance(seen, ObsLayout) else (seen,)
        torsos = [make_feed_forward(critic, layout) for _ in range(num_critics)]
        self.q = DiscreteQEnsemble(torsos, spec.action_dim)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.value = with_output(critic, seen, 1)

    def on_fit_start(self) -> None:
        self.policy.fit_norm(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        if generator is None:
            return self.policy.greedy(obs, mask), carry
        return self.policy.sample(obs, generator, mask), carry

    def update(self, batch: Transitions) -> Metrics:
        actor_optimizer, critic_optimizer, value_optimizer = self.raw_optimizers()
        obs, next_obs = self.policy.norm(batch.obs), self.policy.norm(batch.next_obs)
        with torch.no_grad():
            q_data = _of_action(self.q_target(obs), batch.action).amin(0)
        value_loss = expectile_loss(q_data - self.value(obs).squeeze(-1), self.expectile)
        self.step(value_optimizer, value_loss, self.max_grad_norm)

        with torch.no_grad():
            value, next_value = self.value(torch.cat((obs, next_obs))).squeeze(-1).chunk(2)
            weight = exp_advantage_weight(q_data - value, self.beta, self.max_weight)
            target = td_target(batch.reward, next_value, batch.terminated, batch.discount)
        actor_loss = -(weight * categorical_log_prob(self.policy(obs), batch.action, batch.mask)).mean()
        set_lr(actor_optimizer, self.lr_schedule, self.progress)
        self.step(actor_optimizer, actor_loss, self.max_grad_norm)

        q = _of_action(self.q(obs), batch.action)
        critic_loss = (batch.weight * (q - target).square()).mean(-1).sum()
        self.step(critic_optimizer, critic_loss, self.max_grad_norm)
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        return {
            "train/value_loss": value_loss,
            "train/actor_loss": actor_loss,
            "train/critic_loss": critic_loss,
            "train/value": value.mean(),
            "train/q_values": q.mean(),
            "train/weight_clip_fraction": (weight >= self.max_weight).float().mean(),
        }

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        return [
            build(self.policy.parameters(), self.lr),
            build(self.q.parameters(), self.critic_lr),
            build(self.value.parameters(), self.critic_lr),
        ]


def _of_action(q: Tensor, action: Tensor) -> Tensor:
    """The values of the data's actions.  [E, B, A], [B] -> [E, B]"""
    return q.gather(-1, action.expand(len(q), -1).unsqueeze(-1)).squeeze(-1)
