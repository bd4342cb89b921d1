"""TD3+BC (Fujimoto & Gu 2021): twin delayed critics, and an actor that is also held to the data's actions."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.value import inverse_scale, polyak_update, td_target
from rl_lightning.models.policies import DeterministicPolicy, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class TD3_BC(PolicyModule):
    """A deterministic policy from data: the critics' favourite action, not far from the one that was taken.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        alpha: Weight of the critics' value against cloning; 0 clones.
        policy_noise: Spread of the noise on the next action, which smooths the target.
        noise_clip: Largest such noise.
        policy_delay: Critic updates per update of the policy and of the target networks.
        tau: Fraction of the networks that the targets take over each time.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        optimizer: The optimizer of both, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
        critic_network: What turns an observation with an action into a critic's features, instead of
            `critic_hidden_dims`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        alpha: float = 2.5,
        policy_noise: NonNegativeFloat = 0.2,
        noise_clip: NonNegativeFloat = 0.5,
        policy_delay: PositiveInt = 2,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        normalize_obs: bool = True,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        self.alpha, self.policy_noise, self.noise_clip = alpha, policy_noise, noise_clip
        self.policy_delay, self.tau, self.gamma = policy_delay, tau, gamma
        self.lr, self.critic_lr, self.optimizer = lr, critic_lr or lr, optimizer or Adam
        self.max_grad_norm = max_grad_norm
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        width, hidden_dims = flat_width(spec, "TD3_BC"), hidden_dims or [256, 256]
        self.policy = DeterministicPolicy(width, spec.action_dim, hidden_dims, normalize_obs, network=network)
        self.q = make_critics(2, width, spec.action_dim, critic_hidden_dims or hidden_dims, critic_network)
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
        actor_optimizer, critic_optimizer = self.raw_optimizers()
        obs, next_obs = self.policy.norm(batch.obs), self.policy.norm(batch.next_obs)
        q = self.q(obs, batch.action)
        loss = 0.5 * (batch.weight * (q - self._target(next_obs, batch)).square()).mean(-1).sum()
        self.step(critic_optimizer, loss, self.max_grad_norm)
        metrics = {"train/critic_loss": loss, "train/q_values": q.mean()}
        self.updates += 1
        if self.updates % self.policy_delay == 0:
            metrics |= self._actor_step(obs, batch.action, actor_optimizer)
            self._update_targets()
        return metrics

    @torch.no_grad()
    def _target(self, next_obs: Tensor, batch: Transitions) -> Tensor:
        noise = (self.policy_noise * torch.randn_like(batch.action)).clamp_(-self.noise_clip, self.noise_clip)
        next_action = (self.policy_target(next_obs) + noise).clamp_(-1.0, 1.0)
        next_value = self.q_target(next_obs, next_action).amin(0)
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _actor_step(self, obs: Tensor, data_action: Tensor, optimizer: Optimizer) -> Metrics:
        action = self.policy(obs)
        q = self.q(obs, action)[0]
        clone = F.mse_loss(action, data_action)
        loss = clone - self.alpha * inverse_scale(q) * q.mean()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/actor_loss": loss, "train/bc_loss": clone}

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        polyak_update(list(self.policy_target.parameters()), list(self.policy.parameters()), self.tau)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        return [build(self.policy.parameters(), self.lr), build(self.q.parameters(), self.critic_lr)]
