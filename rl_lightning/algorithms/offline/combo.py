"""COMBO (Yu et al. 2021): CQL that is held down on imagined rows and up on recorded ones."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.soft_actor_critic import SoftActorCritic
from rl_lightning.functional.critics.conservative import soft_maximum
from rl_lightning.models.action_values import drawn_actions, q_of_each
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions


class COMBO(SoftActorCritic):
    """SAC on recorded and imagined rows, with critics held down where the policy is and up where the data are.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy; null: three layers of 256.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        num_critics: How many critics are kept; the lowest counts.
        cql_alpha: Weight of the conservative term beside the squared error (without a half before it).
        cql_n_actions: Actions of each kind at each state: uniform ones, the policy's there, the policy's at the next.
        rho_s: Where critics are held down: at all rows of a batch (mix), or at the imagined ones (model).
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
    default_hidden_dims = (256, 256, 256)

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 2,
        cql_alpha: NonNegativeFloat = 5.0,
        cql_n_actions: PositiveInt = 10,
        rho_s: Literal["mix", "model"] = "mix",
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
        self.cql_alpha, self.cql_n_actions, self.rho_s = cql_alpha, cql_n_actions, rho_s

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        assert batch.is_real is not None
        soft_max = self._soft_maximum(batch)  # [E, B']
        q = self.q(batch.obs, batch.action)  # [E, B]
        bellman = (batch.weight * (q - self._soft_target(batch)).square()).mean(-1).sum()
        real = batch.is_real.to(q)
        gap = soft_max.mean(-1) - (q * real).sum(-1) / real.sum()  # [E]
        self._critic_step(bellman + self.cql_alpha * gap.sum())
        metrics = self._actor_step(batch.obs)
        self._update_targets()
        return metrics | {
            "train/critic_loss": bellman.detach(),
            "train/conservative_gap": gap.detach().mean(),
            "train/q_values": q.detach().mean(),
        }

    def _soft_maximum(self, batch: Transitions) -> Tensor:
        """CQL's, at the states where critics are held down; before the first rollout all rows are recorded.  [E, B']"""
        obs, next_obs = batch.obs, batch.next_obs
        assert batch.is_real is not None
        if self.rho_s == "model" and not batch.is_real.all():
            imagined = (~batch.is_real).nonzero().squeeze(-1)
            obs, next_obs = obs[imagined], next_obs[imagined]
        action, log_density = drawn_actions(self.policy, obs, next_obs, self.cql_n_actions)
        return soft_maximum(q_of_each(self.q, obs, action), log_density)
