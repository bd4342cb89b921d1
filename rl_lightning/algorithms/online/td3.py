"""TD3 (Fujimoto et al. 2018): twin critics, targets that are smoothed, and an actor that waits for both."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.functional.value import polyak_update, smoothed_action, td_target
from rl_lightning.models.normalizers import RunningObsNorm, standardised
from rl_lightning.models.policies import DeterministicPolicy, NormedPolicy, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class TD3(PolicyModule):
    """A deterministic policy for continuous actions, which explores by noise.

    Args:
        spec: What the env is like; filled in from the data.
        hidden_dims: Hidden sizes of the policy.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        num_critics: How many critics are kept; the lowest counts in targets, the first one leads the policy.
        critic_layer_norm: Normalise the critics' hidden layers.
        exploration_noise: Standard deviation of the noise added to an explored action.
        policy_noise: Spread of the noise on the next action, which smooths the target.
        noise_clip: Largest such noise.
        policy_delay: Critic updates per update of the policy and of the target networks.
        tau: Fraction of the networks that the targets take over each time.
        gamma: Discount.
        n_step: Rewards summed before bootstrapping.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
        lr: Learning rate of the policy.
        lr_schedule: How the policy's learning rate changes over the run; null: it does not.
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
        num_critics: PositiveInt = 2,
        critic_layer_norm: bool = False,
        exploration_noise: NonNegativeFloat = 0.1,
        policy_noise: NonNegativeFloat = 0.2,
        noise_clip: NonNegativeFloat = 0.5,
        policy_delay: PositiveInt = 2,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        n_step: PositiveInt = 1,
        normalize_obs: bool = False,
        lr: NonNegativeFloat = 3e-4,
        lr_schedule: Schedule | None = None,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        critic_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        self.exploration_noise, self.policy_noise, self.noise_clip = (
            exploration_noise,
            policy_noise,
            noise_clip,
        )
        self.policy_delay, self.tau, self.gamma, self.n_step = policy_delay, tau, gamma, n_step
        self.lr, self.lr_schedule, self.critic_lr = lr, lr_schedule or Constant(), critic_lr or lr
        self.optimizer, self.max_grad_norm = optimizer or Adam, max_grad_norm
        width, hidden_dims = flat_width(spec, "TD3"), hidden_dims or [256, 256]
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        self.policy = DeterministicPolicy(width, spec.action_dim, hidden_dims, network=network)
        self.q = make_critics(
            num_critics,
            width,
            spec.action_dim,
            critic_hidden_dims or hidden_dims,
            critic_network,
            layer_norm=critic_layer_norm,
        )
        self.policy_target = copy.deepcopy(self.policy).requires_grad_(False)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        action = self.policy(self.norm(obs))
        if generator is None or self.exploration_noise == 0.0:
            return action, carry
        noise = standard_noise(action.shape, generator, action)
        return torch.add(action, noise, alpha=self.exploration_noise).clamp_(-1.0, 1.0), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = standardised(self.norm, batch, distributed.gather)
        metrics = self._critic_step(batch)
        if self.updates % self.policy_delay == 0:
            metrics |= self._actor_step(batch)
            self._update_targets()
        return metrics

    def update_critic(self, batch: Transitions) -> Metrics:
        """The critics alone; the policy stays as it is."""
        metrics = self._critic_step(standardised(self.norm, batch, distributed.gather))
        if self.updates % self.policy_delay == 0:
            self._update_targets()
        return metrics

    def update_actor(self, batch: Transitions) -> Metrics:
        """The policy alone."""
        return self._actor_step(standardised(self.norm, batch, distributed.gather))

    def _critic_step(self, batch: Transitions) -> Metrics:
        q = self.q(batch.obs, batch.action)  # [E, B]
        error = q - self._target(batch)
        loss = (batch.weight * error.square()).mean(-1).sum()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        self.updates += 1
        return {
            "train/critic_loss": loss.detach(),
            "train/q_values": q.detach().mean(),
            "priority": error.detach().abs().mean(0),
        }

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        noise = self.policy_noise * torch.randn_like(batch.action)
        next_action = smoothed_action(self.policy_target(batch.next_obs), noise, self.noise_clip)
        next_value = self.q_target(batch.next_obs, next_action).amin(0)
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _actor_step(self, batch: Transitions) -> Metrics:
        optimizer = self.raw_optimizers()[0]
        set_lr(optimizer, self.lr_schedule, self.progress)
        loss = -self.q(batch.obs, self.policy(batch.obs))[0].mean()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/actor_loss": loss.detach()}

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        polyak_update(list(self.policy_target.parameters()), list(self.policy.parameters()), self.tau)

    def exports(self) -> dict[str, Exported]:
        if not self.policy.describable:
            return {}
        policy = self.policy.exported("policy.")
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        return [build(self.policy.parameters(), self.lr), build(self.q.parameters(), self.critic_lr)]
