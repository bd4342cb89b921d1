"""EDAC (An et al. 2021): many critics, the lowest counts, and they must not agree on where it goes up."""

from __future__ import annotations

from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.soft_actor_critic import SoftActorCritic
from rl_lightning.errors import ConfigError
from rl_lightning.functional.critics.conservative import gradient_diversity
from rl_lightning.models.action_values import q_and_action_grads
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import EnvSpec, Transitions


class EDAC(SoftActorCritic):
    """SAC-N with gradients of the critics by the action kept apart, so that fewer critics do.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the policy; null: three layers of 256.
        critic_hidden_dims: Hidden sizes of each critic; null: as the policy.
        num_critics: How many critics are kept; the lowest counts.
        diversity_coef: Weight of the gradients' likeness beside the squared error (without a half before it), the
            paper's eta; 0 is SAC-N.
        backup_entropy: The target counts the policy's entropy.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        alpha_lr: Learning rate of the temperature; null: as the policy.
        lr_schedule: How the policy's learning rate changes over the run; null: it does not.
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

    default_hidden_dims = (256, 256, 256)

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 10,
        diversity_coef: NonNegativeFloat = 1.0,
        backup_entropy: bool = True,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
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
        if num_critics < 2:
            raise ConfigError(
                f"model.num_critics is {num_critics}; EDAC keeps critics apart, so it needs two"
            )
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
        self.diversity_coef = diversity_coef

    def update(self, batch: Transitions) -> Metrics:
        batch = self._scaled(batch)
        target = self._soft_target(batch)
        q, grads = q_and_action_grads(self.q, batch.obs, batch.action)  # [E, B], [E, B, A]
        bellman = (batch.weight * (q - target).square()).mean(-1).sum()
        likeness = gradient_diversity(grads)
        self._critic_step(bellman + self.diversity_coef * likeness)
        metrics = self._actor_step(batch.obs)
        self._update_targets()
        return metrics | {
            "train/critic_loss": bellman.detach(),
            "train/gradient_likeness": likeness.detach(),
            "train/q_values": q.detach().mean(),
        }
