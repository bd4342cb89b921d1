"""Conservative Q-learning (Kumar et al. 2020): critics that value no action above those of the data."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.soft_actor_critic import SoftActorCritic
from rl_lightning.functional.critics.conservative import soft_maximum
from rl_lightning.functional.value import td_target
from rl_lightning.models.action_values import drawn_actions, q_of_each
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions

LARGEST_MULTIPLIER = 1e6


class CQL(SoftActorCritic):
    """SAC on recorded data, with critics held down wherever the data have no action.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        num_critics: How many critics are kept; the lowest counts.
        cql_alpha: Weight of the conservative term beside the squared error (without a half before it).
        cql_n_actions: Actions of each kind at each state: uniform ones, the policy's there, the policy's at the next.
        cql_target_action_gap: What a learned weight holds the conservative term at (Lagrange), on top of `cql_alpha`;
            null: the weight stays 1.
        cql_clip_diff_min: The conservative term of a row counts no less than this; null: as it is.
        max_target_backup: The target takes the best of `cql_n_actions` actions of the policy's.
        backup_entropy: The target counts the policy's entropy.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        alpha_lr: Learning rate of the temperature; null: as the policy.
        lr_schedule: How the policy's learning rate changes over the run; null: it does not.
        optimizer: The optimizer of all, without its learning rate.
        gamma: Discount.
        tau: Fraction of the critics that the targets take over at each update.
        alpha: Temperature: a number keeps it fixed, null learns it.
        initial_alpha: Where a learned temperature starts.
        target_entropy: Entropy that the learned temperature holds; null: minus the number of action dimensions.
        log_std_init: Log standard deviation of the first policy; null: the middle of its bounds, -1.5.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        network: What turns an observation into the policy's features, instead of `hidden_dims`.
        critic_network: What turns an observation with an action into a critic's features, instead of
            `critic_hidden_dims`.
        critic_layer_norm: Normalise the critics' hidden layers.
    """

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 2,
        cql_alpha: NonNegativeFloat = 5.0,
        cql_n_actions: PositiveInt = 10,
        cql_target_action_gap: float | None = None,
        cql_clip_diff_min: float | None = None,
        max_target_backup: bool = False,
        backup_entropy: bool = False,
        lr: NonNegativeFloat = 1e-4,
        critic_lr: NonNegativeFloat | None = 3e-4,
        alpha_lr: NonNegativeFloat | None = None,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        tau: PositiveFraction = 0.005,
        alpha: float | None = None,
        initial_alpha: PositiveFloat = 1.0,
        target_entropy: float | None = None,
        log_std_init: float | None = None,
        max_grad_norm: PositiveFloat | None = None,
        normalize_obs: bool = True,
        network: Network | None = None,
        critic_network: Network | None = None,
        critic_layer_norm: bool = False,
    ) -> None:
        super().__init__(
            spec,
            hidden_dims,
            critic_hidden_dims,
            num_critics,
            lr,
            critic_lr,
            alpha_lr,
            lr_schedule,
            optimizer,
            gamma,
            tau,
            alpha,
            initial_alpha,
            target_entropy,
            backup_entropy,
            log_std_init,
            max_grad_norm,
            normalize_obs,
            network,
            critic_network,
            critic_layer_norm,
        )
        self.cql_alpha, self.cql_n_actions = cql_alpha, cql_n_actions
        self.cql_target_action_gap = cql_target_action_gap
        self.cql_clip_diff_min = -math.inf if cql_clip_diff_min is None else cql_clip_diff_min
        self.max_target_backup = max_target_backup
        self.log_multiplier = None if cql_target_action_gap is None else nn.Parameter(torch.zeros(()))

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        action, log_density = drawn_actions(self.policy, batch.obs, batch.next_obs, self.cql_n_actions)
        q, values = q_of_each(self.q, batch.obs, torch.cat((batch.action.unsqueeze(1), action), 1)).split(
            (1, action.shape[1]), -1
        )
        q = q.squeeze(-1)  # [E, B]
        bellman = (batch.weight * (q - self._target(batch)).square()).mean(-1).sum()
        gap = (soft_maximum(values, log_density) - q).clamp_min(self.cql_clip_diff_min).mean(-1)  # [E]
        self._critic_step(bellman + self._multiplied(gap))
        metrics = self._actor_step(batch.obs)
        self._update_targets()
        return metrics | {
            "train/critic_loss": bellman.detach(),
            "train/conservative_gap": gap.detach().mean(),
            "train/q_values": q.detach().mean(),
        }

    def _target(self, batch: Transitions) -> Tensor:
        if not self.max_target_backup:
            return self._soft_target(batch)
        with torch.no_grad():
            action, _ = self.policy.sample_with_log_prob(batch.next_obs, self.cql_n_actions)
            next_value = q_of_each(self.q_target, batch.next_obs, action).amin(0).amax(-1)
            return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _multiplied(self, gap: Tensor) -> Tensor:
        """The conservative term as the critics' loss counts it; a learned multiplier makes its own step before."""
        if self.log_multiplier is None:
            return self.cql_alpha * gap.sum()
        assert self.cql_target_action_gap is not None
        excess = self.cql_alpha * (gap - self.cql_target_action_gap)
        multiplier = self.log_multiplier.exp().clamp(max=LARGEST_MULTIPLIER)
        self.step(self.raw_optimizers()[-1], -0.5 * multiplier * excess.detach().sum())
        return multiplier.detach() * excess.sum()

    def configure_optimizers(self) -> list[Optimizer]:
        optimizers = super().configure_optimizers()
        if self.log_multiplier is None:
            return optimizers
        return [*optimizers, self.optimizer([self.log_multiplier], self.critic_lr)]
