"""MOBILE (Sun et al. 2023): an imagined row is worth less where a model's members disagree on the value behind it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.soft_actor_critic import SoftActorCritic
from rl_lightning.artifacts import load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.critics.model_doubt import bellman_inconsistency
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions


class MOBILE(SoftActorCritic):
    """SAC on recorded and imagined rows; the target of an imagined one pays for what the model's members disagree on.

    Args:
        spec: What the data are like; filled in from them.
        dynamics: Artifact of a dynamics stage, the one that the data imagine with.
        hidden_dims: Hidden sizes of the policy.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        num_critics: How many critics are kept; the lowest counts.
        penalty_coef: Weight of the penalty: the spread over the elites of the value of where they think a row leads.
        num_next_samples: Next observations that each elite draws for it.
        q_floor: Targets are no lower; the original has 0, which suits rewards that are never negative. null: none.
        backup_entropy: The target counts the policy's entropy.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        alpha_lr: Learning rate of the temperature; null: as the policy.
        lr_schedule: How the policy's learning rate changes over the run (the original: Cosine); null: it does not.
        optimizer: The optimizer of all three, without its learning rate.
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

    needs_fields = ("is_real",)
    doubts_by_itself = True

    def __init__(
        self,
        spec: EnvSpec,
        dynamics: Artifact,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 2,
        penalty_coef: NonNegativeFloat = 0.5,
        num_next_samples: PositiveInt = 10,
        q_floor: float | None = None,
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
        normalize_obs: bool = False,
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
        self.source, self.penalty_coef = dynamics, penalty_coef
        self.num_next_samples, self.q_floor = num_next_samples, q_floor

    @cached_property
    def dynamics(self) -> Any:
        """The frozen model; no part of this module, so that its weights are neither trained nor saved."""
        with torch.random.fork_rng(
            devices=[]
        ):  # weights are drawn before they are read: nobody else shall notice
            return load_exported(self.source, "dynamics")

    def setup(self, stage: str) -> None:
        if stage != "fit":
            return
        known, wanted = (
            (self.dynamics.obs_dim, self.dynamics.action_dim),
            (self.spec.obs_shape[0], self.spec.action_dim),
        )
        if known != wanted:
            raise ConfigError(
                f"{self.source}: a model of {known[0]} observations and {known[1]} actions; the data have {wanted[0]} "
                f"and {wanted[1]}"
            )

    def update(self, batch: Transitions) -> Metrics:
        penalty = self._penalty(batch)
        batch = self._scaled(batch)
        target = self._soft_target(batch) - self.penalty_coef * penalty
        if self.q_floor is not None:
            target = target.clamp_min(self.q_floor)
        q = self.q(batch.obs, batch.action)  # [E, B]
        loss = (batch.weight * (q - target).square()).mean()
        self._critic_step(loss)
        metrics = self._actor_step(batch.obs)
        self._update_targets()
        return metrics | {
            "train/critic_loss": loss.detach(),
            "train/inconsistency": penalty.mean(),
            "train/q_values": q.detach().mean(),
        }

    @torch.no_grad()
    def _penalty(self, batch: Transitions) -> Tensor:
        """Of imagined rows, by the target critics as they are now; 0 of recorded ones.  [B]"""
        assert batch.is_real is not None
        penalty = torch.zeros_like(batch.reward)
        imagined = (~batch.is_real).nonzero().squeeze(-1)
        if len(imagined):
            model = self.dynamics.to(batch.obs.device)
            next_obs = model.sample_elites(batch.obs[imagined], batch.action[imagined], self.num_next_samples)
            rows = self.policy.norm(next_obs.flatten(0, 2))
            action, _ = self.policy.sample_with_log_prob(rows)
            value = self.q_target(rows, action).amin(0).unflatten(0, next_obs.shape[:3])  # [S, K, B']
            penalty[imagined] = bellman_inconsistency(value)
        return penalty
