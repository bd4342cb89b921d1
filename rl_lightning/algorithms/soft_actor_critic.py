"""What the soft actor-critics of recorded data share: the policy, critics that targets follow, and the temperature."""

from __future__ import annotations

import copy
import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_update, td_target
from rl_lightning.models.policies import SquashedGaussianPolicy, flat_width
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class SoftActorCritic(PolicyModule):
    """Base of such rules; each says in `update` what its critics learn.

    Its arguments are those that the rules hand on; see them for what each means.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    default_hidden_dims: ClassVar[tuple[int, ...]] = (256, 256)

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None,
        critic_hidden_dims: list[PositiveInt] | None,
        num_critics: PositiveInt,
        lr: NonNegativeFloat,
        critic_lr: NonNegativeFloat | None,
        alpha_lr: NonNegativeFloat | None,
        lr_schedule: Schedule | None,
        optimizer: OptimizerFactory | None,
        gamma: Fraction,
        tau: PositiveFraction,
        alpha: float | None,
        initial_alpha: PositiveFloat,
        target_entropy: float | None,
        backup_entropy: bool,
        log_std_init: float | None,
        max_grad_norm: PositiveFloat | None,
        normalize_obs: bool,
        network: Network | None,
        critic_network: Network | None,
        critic_layer_norm: bool,
    ) -> None:
        super().__init__(spec)
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        if alpha is not None and alpha <= 0.0:
            raise ConfigError(
                f"model.alpha is {alpha}; it must be above 0: a small one, 1e-6, is as good as none"
            )
        self.lr, self.critic_lr, self.alpha_lr = lr, critic_lr or lr, alpha_lr or lr
        self.lr_schedule, self.optimizer = lr_schedule or Constant(), optimizer or Adam
        self.gamma, self.tau, self.backup_entropy = gamma, tau, backup_entropy
        self.max_grad_norm = max_grad_norm
        width, hidden_dims = (
            flat_width(spec, type(self).__name__),
            hidden_dims or list(self.default_hidden_dims),
        )
        self.policy = SquashedGaussianPolicy(
            width, spec.action_dim, hidden_dims, normalize_obs, network=network
        )
        if log_std_init is not None:
            self.policy.start_at(log_std_init)
        self.q = make_critics(
            num_critics,
            width,
            spec.action_dim,
            critic_hidden_dims or hidden_dims,
            critic_network,
            critic_layer_norm,
        )
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.learn_alpha = alpha is None
        self.log_alpha = nn.Parameter(
            torch.tensor(math.log(initial_alpha if alpha is None else alpha)), requires_grad=self.learn_alpha
        )
        self.target_entropy = float(-spec.action_dim) if target_entropy is None else target_entropy

    def on_fit_start(self) -> None:
        self.policy.fit_norm(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self.policy.greedy(obs) if generator is None else self.policy.sample(obs, generator), carry

    def _scaled(self, batch: Transitions) -> Transitions:
        """The rows as the networks see them."""
        return batch._replace(obs=self.policy.norm(batch.obs), next_obs=self.policy.norm(batch.next_obs))

    @torch.no_grad()
    def _soft_target(self, batch: Transitions) -> Tensor:
        """SAC's: the lowest target critic of an action of the policy's, with its entropy if that is wanted.  -> [B]"""
        next_action, next_log_prob = self.policy.sample_with_log_prob(batch.next_obs)
        next_value = self.q_target(batch.next_obs, next_action).amin(0)
        if self.backup_entropy:
            next_value = next_value - self.log_alpha.exp() * next_log_prob
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _critic_step(self, loss: Tensor) -> None:
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)

    def _actor_step(self, obs: Tensor) -> Metrics:
        """SAC's: the policy towards what the lowest critic values, less its own certainty; then the temperature."""
        optimizers = self.raw_optimizers()
        set_lr(optimizers[0], self.lr_schedule, self.progress)
        action, log_prob = self.policy.sample_with_log_prob(obs)
        alpha, q = self.log_alpha.detach().exp(), self.q(obs, action)
        loss = (alpha * log_prob - q.min(0).values).mean()
        self.step(optimizers[0], loss, self.max_grad_norm)
        entropy = -log_prob.detach().mean()
        if self.learn_alpha:
            self.step(optimizers[2], self.log_alpha * (entropy - self.target_entropy))
        return {"train/actor_loss": loss.detach(), "train/entropy": entropy, "train/alpha": alpha}

    def _update_targets(self) -> None:
        polyak_update(self.q_target.tensors(), self.q.tensors(), self.tau)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        optimizers = [build(self.policy.parameters(), self.lr), build(self.q.parameters(), self.critic_lr)]
        return [*optimizers, build([self.log_alpha], self.alpha_lr)] if self.learn_alpha else optimizers
