"""ReBRAC (Tarasov et al. 2023): TD3+BC with a penalty of its own for the critics, and what has been learned since."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.value import inverse_scale, polyak_update, smoothed_action, td_target
from rl_lightning.models.policies import DeterministicPolicy, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class ReBRAC(PolicyModule):
    """A deterministic policy from data: held to the data's actions, and valued less where it leaves them.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy; null: three layers of 256.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        actor_bc_coef: Weight of the squared distance to the data's actions in the policy's loss (beta_1).
        critic_bc_coef: Weight of the squared distance to the data's next actions in the target (beta_2).
        policy_noise: Spread of the noise on the next action, which smooths the target.
        noise_clip: Largest such noise.
        policy_delay: Critic updates per update of the policy and of the target networks.
        tau: Fraction of the networks that the targets take over each time.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        critic_layer_norm: Normalise the critics' hidden layers behind their activation.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        optimizer: The optimizer of both, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
        critic_network: What turns an observation with an action into a critic's features, instead of
            `critic_hidden_dims`.
    """

    learns_from = (Transitions,)
    needs_fields = ("next_action",)
    action_kinds = ("continuous",)
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        actor_bc_coef: NonNegativeFloat = 0.01,
        critic_bc_coef: NonNegativeFloat = 0.01,
        policy_noise: NonNegativeFloat = 0.2,
        noise_clip: NonNegativeFloat = 0.5,
        policy_delay: PositiveInt = 2,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        normalize_obs: bool = False,
        critic_layer_norm: bool = True,
        lr: NonNegativeFloat = 1e-3,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        self.actor_bc_coef, self.critic_bc_coef = actor_bc_coef, critic_bc_coef
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        self.policy_delay, self.tau, self.gamma = policy_delay, tau, gamma
        self.lr, self.critic_lr, self.optimizer = lr, critic_lr or lr, optimizer or Adam
        self.max_grad_norm = max_grad_norm
        width, hidden_dims = flat_width(spec, "ReBRAC"), hidden_dims or [256, 256, 256]
        self.policy = DeterministicPolicy(width, spec.action_dim, hidden_dims, normalize_obs, network=network)
        self.q = make_critics(
            2,
            width,
            spec.action_dim,
            critic_hidden_dims or hidden_dims,
            critic_network,
            layer_norm=critic_layer_norm,
            norm_last=True,
        )
        self.policy_target = copy.deepcopy(self.policy).requires_grad_(False)
        self.policy_target.norm = nn.Identity()  # one normaliser serves all networks
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def on_fit_start(self) -> None:
        self.policy.fit_norm(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self.policy.greedy(obs), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = batch._replace(obs=self.policy.norm(batch.obs), next_obs=self.policy.norm(batch.next_obs))
        q = self.q(batch.obs, batch.action)  # [E, B]
        loss = (batch.weight * (q - self._target(batch)).square()).mean(-1).sum()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        metrics = {"train/critic_loss": loss.detach(), "train/q_values": q.detach().mean()}
        self.updates += 1
        if self.updates % self.policy_delay == 0:
            metrics |= self._actor_step(batch)
            self._update_targets()
        return metrics

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        assert batch.next_action is not None
        noise = self.policy_noise * torch.randn_like(batch.action)
        next_action = smoothed_action(self.policy_target(batch.next_obs), noise, self.noise_clip)
        distance = (next_action - batch.next_action).square().sum(-1)
        next_value = self.q_target(batch.next_obs, next_action).amin(0) - self.critic_bc_coef * distance
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _actor_step(self, batch: Transitions) -> Metrics:
        action = self.policy(batch.obs)
        q = self.q(batch.obs, action).min(0).values
        distance = (action - batch.action).square().sum(-1).mean()
        loss = self.actor_bc_coef * distance - inverse_scale(q) * q.mean()
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return {"train/actor_loss": loss.detach(), "train/bc_loss": distance.detach()}

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        polyak_update(list(self.policy_target.parameters()), list(self.policy.parameters()), self.tau)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        return [build(self.policy.parameters(), self.lr), build(self.q.parameters(), self.critic_lr)]
