"""Soft actor-critic (Haarnoja et al. 2018), and its discrete form (Christodoulou 2019) in discrete_sac.py."""

from __future__ import annotations

import copy
import math
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported, load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.factories import class_of, settings_of
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.functional.value import polyak_update, td_target
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.normalizers import RunningObsNorm, standardised
from rl_lightning.models.policies import NormedPolicy, SquashedGaussianPolicy
from rl_lightning.nn.heads.actors import SquashedGaussianActor
from rl_lightning.nn.heads.critics import make_critics
from rl_lightning.nn.make_torso import make_feed_forward, network_of_pictures
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import FeedForward, Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import (
    Fraction,
    FractionBelowOne,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import Carry, EnvSpec, Transitions


class SAC(PolicyModule):
    """Maximum-entropy actor-critic for continuous actions.

    Args:
        spec: What the env is like; filled in from the data.
        network: What turns an observation into the actor's features; of pictures, in a copy of their own, the critics',
            too.
        actor_network: The same for the actor alone.
        critic_network: What turns an observation with an action into a critic's features, for each critic one; of
            pictures it follows the encoder. Null: layers of `critic_hidden_dims`, which are computed all at once.
        critic_hidden_dims: Hidden sizes of each critic.
        num_critics: How many critics are kept.
        critic_layer_norm: Normalise the critics' hidden layers, which keeps them from soaring where they saw no data.
        critic_dropout: Fraction of the critics' hidden units that is left out in training, in targets too (DroQ); the
            actor then follows their mean.
        num_target_critics: How many of them, drawn anew each update, the target's minimum is taken over (REDQ);
            null: all.
        lr: Learning rate of the actor.
        lr_schedule: How the actor's learning rate changes over the run (MOPO, GORMPO: Cosine, offline); null: not.
        critic_lr: Learning rate of the critics; null: as the actor.
        alpha_lr: Learning rate of the temperature; null: as the actor.
        optimizer: The optimizer of all three, without its learning rate.
        gamma: Discount.
        n_step: Rewards summed before bootstrapping.
        tau: Fraction of the critics that the targets take over at each update.
        alpha: Temperature: a number keeps it fixed, null learns it.
        initial_alpha: Where a learned temperature starts.
        log_std_init: Log standard deviation of the first policy; null: the middle of its bounds, -1.5, as in CleanRL.
            SB3's and OfflineRL-Kit's start around 0.
        target_entropy: Entropy that the learned temperature holds; null: minus the number of action dimensions.
        policy_delay: Critic updates per update of the actor and the temperature.
        actor_steps: Steps that both then make: 1 as in REDQ and DroQ; as many as `policy_delay`, as in CleanRL, make up
            for the wait.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        init_policy: Artifact of a policy that the actor starts from, e.g. of BC with `loss: NegativeLogLikelihood`;
            null: from scratch.
        actor_warmup_updates: Updates of the critics alone before the actor moves; lets them learn about that policy
            first.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    takes_pictures_beside_vectors = True
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_critics: PositiveInt = 2,
        num_target_critics: PositiveInt | None = None,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        alpha_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        n_step: PositiveInt = 1,
        tau: PositiveFraction = 0.005,
        alpha: float | None = None,
        initial_alpha: PositiveFloat = 1.0,
        target_entropy: float | None = None,
        policy_delay: PositiveInt = 1,
        actor_steps: PositiveInt = 1,
        max_grad_norm: PositiveFloat | None = None,
        init_policy: Artifact | None = None,
        actor_warmup_updates: NonNegativeInt = 0,
        critic_layer_norm: bool = False,
        critic_dropout: FractionBelowOne = 0.0,
        lr_schedule: Schedule | None = None,
        log_std_init: float | None = None,
        actor_network: Network | None = None,
        critic_network: Network | None = None,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(spec)
        check_network_or_sizes(critic_network, critic_hidden_dims, "critic_network", "critic_hidden_dims")
        self.init_policy, self.actor_warmup_updates = init_policy, actor_warmup_updates
        if alpha is not None and alpha <= 0.0:
            raise ConfigError(
                f"model.alpha is {alpha}; it must be above 0: a small one, 1e-6, is as good as none"
            )
        if num_target_critics is not None and not 1 <= num_target_critics <= num_critics:
            raise ConfigError(
                f"model.num_target_critics is {num_target_critics}; it must lie between 1 and "
                f"num_critics ({num_critics})"
            )
        self.lr, self.critic_lr, self.alpha_lr = lr, critic_lr or lr, alpha_lr or lr
        self.lr_schedule = lr_schedule
        self.optimizer = optimizer or Adam
        self.gamma, self.n_step, self.tau = gamma, n_step, tau
        self.num_target_critics, self.max_grad_norm = num_target_critics, max_grad_norm
        self.policy_delay, self.actor_steps = policy_delay, actor_steps
        network = (
            network
            or network_of_pictures(spec)
            or partial(MLP, hidden_dims=[256, 256], activation="relu", init="default")
        )
        self.network = actor_network or network
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        self.actor = SquashedGaussianActor(
            make_feed_forward(self.network, spec.obs_layout), spec.action_dim, log_std_init=log_std_init
        )
        hidden = critic_hidden_dims or [256, 256]
        # Pixels are seen through an encoder of the critics' own; the actor never trains it.
        pixels = len(spec.obs_shape) > 1 or spec.is_bytes
        self.encoder: nn.Module = make_feed_forward(network, spec.obs_layout) if pixels else nn.Identity()
        width = int(self.encoder.out_dim) if isinstance(self.encoder, FeedForward) else spec.obs_shape[0]
        self.q = make_critics(
            num_critics,
            width,
            spec.action_dim,
            hidden,
            critic_network,
            layer_norm=critic_layer_norm,
            dropout=critic_dropout,
        )
        mean = num_target_critics is not None or critic_dropout > 0.0
        self.actor_value = "mean" if mean else "min"
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.encoder_target = copy.deepcopy(self.encoder).requires_grad_(False)
        self.learn_alpha = alpha is None
        self.log_alpha = nn.Parameter(
            torch.tensor(math.log(initial_alpha if alpha is None else alpha)), requires_grad=self.learn_alpha
        )
        self.target_entropy = float(-spec.action_dim) if target_entropy is None else target_entropy
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def setup(self, stage: str) -> None:
        if stage != "fit" or self.init_policy is None or self.updates > 0:
            return
        start = load_exported(self.init_policy, "policy")
        try:
            self.actor.load_state_dict(start.state_dict())
        except RuntimeError:
            raise ConfigError(
                f"{self.init_policy}: its policy is not an actor of SAC's shape. Train it with "
                "--model.loss NegativeLogLikelihood --model.normalize_obs false and the same hidden sizes"
            ) from None

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        mean, log_std = self.actor(self.norm(obs))
        if generator is None:
            return torch.tanh(mean), carry
        return torch.tanh(mean + log_std.exp() * standard_noise(mean.shape, generator, mean)), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = standardised(self.norm, batch, distributed.gather)
        metrics = self._critic_step(batch)
        for _ in range(self.actor_steps if self._actor_is_due() else 0):
            metrics |= self._actor_step(batch)
        self._update_targets()
        return metrics

    def update_critic(self, batch: Transitions) -> Metrics:
        """The critics alone; the policy stays as it is."""
        metrics = self._critic_step(standardised(self.norm, batch, distributed.gather))
        self._update_targets()
        return metrics

    def update_actor(self, batch: Transitions) -> Metrics:
        """The policy and its temperature alone."""
        return self._actor_step(standardised(self.norm, batch, distributed.gather))

    def _critic_step(self, batch: Transitions) -> Metrics:
        critic_optimizer = self.raw_optimizers()[1]
        alpha = self.log_alpha.detach().exp()
        q_target = self._q_target(batch, alpha)
        q = self.q(self.encoder(batch.obs), batch.action)  # [E, B]
        error = q - q_target
        critic_loss = 0.5 * (batch.weight * error.square()).mean(-1).sum()
        self.step(critic_optimizer, critic_loss, self.max_grad_norm)
        self.updates += 1
        return {
            "train/critic_loss": critic_loss.detach(),
            "train/q_values": q.detach().mean(),
            "train/alpha": alpha,
            "priority": error.detach().abs().mean(0),
        }

    def _update_targets(self) -> None:
        polyak_update(self.q_target.tensors(), self.q.tensors(), self.tau)
        if not isinstance(self.encoder, nn.Identity):
            polyak_update(list(self.encoder_target.parameters()), list(self.encoder.parameters()), self.tau)

    @torch.no_grad()
    def _q_target(self, batch: Transitions, alpha: Tensor) -> Tensor:
        next_action, next_log_prob = self.actor.sample(batch.next_obs)
        q_next = self.q_target(self.encoder_target(batch.next_obs), next_action)  # [E, B]
        if self.num_target_critics is not None:
            q_next = q_next[torch.randperm(len(q_next), device=q_next.device)[: self.num_target_critics]]
        next_value = q_next.amin(0) - alpha * next_log_prob
        return td_target(batch.reward, next_value, batch.terminated, batch.discount)

    def _actor_loss(self, batch: Transitions) -> tuple[Tensor, Tensor]:
        """The loss, and the policy's entropy by its own sample."""
        action, log_prob = self.actor.sample(batch.obs)
        with torch.no_grad():
            features = self.encoder(batch.obs)
        q = self.q(features, action)  # [E, B]
        value = q.min(0).values if self.actor_value == "min" else q.mean(0)
        loss = (self.log_alpha.detach().exp() * log_prob - value).mean()
        return loss, -log_prob.detach().mean()

    def _actor_step(self, batch: Transitions) -> Metrics:
        actor_optimizer, _, *alpha_optimizer = self.raw_optimizers()
        if self.lr_schedule is not None:
            set_lr(actor_optimizer, self.lr_schedule, self.progress)
        actor_loss, entropy = self._actor_loss(batch)
        self.step(actor_optimizer, actor_loss, self.max_grad_norm)
        if alpha_optimizer:
            self.step(alpha_optimizer[0], self.log_alpha * (entropy - self.target_entropy))
        return {"train/actor_loss": actor_loss.detach(), "train/entropy": entropy}

    def _actor_is_due(self) -> bool:
        count = int(self.updates) if self.actor_warmup_updates or self.policy_delay > 1 else 1
        return count > self.actor_warmup_updates and count % self.policy_delay == 0

    @property
    def policy_trained(self) -> bool:
        return self.actor_warmup_updates == 0 or int(self.updates) > self.actor_warmup_updates

    def exports(self) -> dict[str, Exported]:
        """The actor as a policy of its own, where it is a plain network of flat observations."""
        if class_of(self.network) is not MLP or len(self.spec.obs_shape) != 1 or self.spec.is_bytes:
            return {}
        sizes = {"obs_dim": self.spec.obs_shape[0], "action_dim": self.spec.action_dim}
        layers = {name: value for name, value in (settings_of(self.network) or {}).items() if name != "init"}
        policy = SquashedGaussianPolicy.export_spec("actor.", sizes | layers)
        return {"policy": NormedPolicy.around(policy) if isinstance(self.norm, RunningObsNorm) else policy}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        optimizers = [
            build(self.actor.parameters(), self.lr),
            build([*self.q.parameters(), *self.encoder.parameters()], self.critic_lr),
        ]
        return [*optimizers, build([self.log_alpha], self.alpha_lr)] if self.learn_alpha else optimizers
