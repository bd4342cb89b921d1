"""Soft actor-critic for discrete actions (Christodoulou 2019): expectations over all actions instead of samples."""

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
from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import categorical_sample, mask_logits
from rl_lightning.functional.value import polyak_update, td_target
from rl_lightning.models.network_policies import HeadPolicy, describable
from rl_lightning.models.normalizers import RunningObsNorm, standardised
from rl_lightning.nn.heads.actors import CategoricalHead
from rl_lightning.nn.heads.critics import DiscreteQEnsemble
from rl_lightning.nn.make_torso import make_feed_forward, network_of_pictures
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiscreteSAC(PolicyModule):
    """Maximum-entropy actor-critic for discrete actions.

    Args:
        spec: What the env is like; filled in from the data.
        network: What turns an observation into features, one copy for the actor and one for each critic.
        num_critics: How many critics are kept; the target takes their minimum.
        lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics; null: as the actor.
        alpha_lr: Learning rate of the temperature; null: as the actor.
        optimizer: The optimizer of all three, without its learning rate.
        gamma: Discount.
        n_step: Rewards summed before bootstrapping.
        tau: Fraction of the critics that the targets take over at each copy.
        target_every: Updates between copies to the target critics.
        alpha: Temperature: a number keeps it fixed, null learns it.
        target_entropy_scale: Entropy that the learned temperature holds, as a fraction of the largest possible.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        normalize_obs: Standardise observations by running statistics, which are part of the model.
    """

    learns_from = (Transitions,)
    action_kinds = ("discrete",)
    takes_pictures_beside_vectors = True
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        network: Network | None = None,
        num_critics: PositiveInt = 2,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        alpha_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        gamma: Fraction = 0.99,
        n_step: PositiveInt = 1,
        tau: PositiveFraction = 0.005,
        target_every: PositiveInt = 1,
        alpha: float | None = None,
        target_entropy_scale: float = 0.89,
        max_grad_norm: PositiveFloat | None = None,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(spec)
        self.lr, self.critic_lr, self.alpha_lr = lr, critic_lr or lr, alpha_lr or lr
        self.optimizer = optimizer or Adam
        self.gamma, self.n_step, self.max_grad_norm = gamma, n_step, max_grad_norm
        self.tau, self.target_every = tau, target_every
        self.network = network = (
            network
            or network_of_pictures(spec)
            or partial(MLP, hidden_dims=[256, 256], activation="relu", init="default")
        )
        self.norm = RunningObsNorm(spec.obs_layout) if normalize_obs else nn.Identity()
        actions = spec.action_sizes[0]
        self.torso = make_feed_forward(network, spec.obs_layout)
        self.policy = CategoricalHead(self.torso.out_dim, actions)
        self.q = DiscreteQEnsemble(
            [make_feed_forward(network, spec.obs_layout) for _ in range(num_critics)], actions
        )
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.learn_alpha = alpha is None
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha or 1.0)), requires_grad=self.learn_alpha)
        self.target_entropy = target_entropy_scale * math.log(actions)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        logits = mask_logits(self.policy(self.torso(self.norm(obs))), mask)
        return (logits.argmax(-1) if generator is None else categorical_sample(logits, generator)), carry

    def update(self, batch: Transitions) -> Metrics:
        batch = standardised(self.norm, batch, distributed.gather)
        metrics, q = self._critic_step(batch)
        metrics |= self._actor_step(batch, q)
        self._update_targets()
        return metrics

    def update_critic(self, batch: Transitions) -> Metrics:
        """The critics alone; the policy stays as it is."""
        metrics, _ = self._critic_step(standardised(self.norm, batch, distributed.gather))
        self._update_targets()
        return metrics

    def update_actor(self, batch: Transitions) -> Metrics:
        """The policy and its temperature alone."""
        batch = standardised(self.norm, batch, distributed.gather)
        with torch.no_grad():
            q = self.q(batch.obs)
        return self._actor_step(batch, q)

    def _critic_step(self, batch: Transitions) -> tuple[Metrics, Tensor]:
        """Metrics, and the values of all actions before the step.  -> [E, B, A]"""
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            log_probs = self._log_probs(batch.next_obs, batch.next_mask)
            soft = self.q_target(batch.next_obs).amin(0) - alpha * log_probs
            next_value = (log_probs.exp() * soft).sum(-1)
            target = td_target(batch.reward, next_value, batch.terminated, batch.discount)
        q = self.q(batch.obs)  # [E, B, A]
        chosen = q.gather(-1, batch.action[None, :, None].expand(len(q), -1, 1))[..., 0]
        critic_loss = 0.5 * (batch.weight * (chosen - target).square()).mean(-1).sum()
        self.step(self.raw_optimizers()[1], critic_loss, self.max_grad_norm)
        metrics = {
            "train/critic_loss": critic_loss,
            "train/q_values": chosen.mean(),
            "train/alpha": alpha,
            "priority": (chosen - target).detach().abs().mean(0),
        }
        return metrics, q.detach()

    def _actor_step(self, batch: Transitions, q: Tensor) -> Metrics:
        actor_optimizer, _, *alpha_optimizer = self.raw_optimizers()
        alpha = self.log_alpha.exp().detach()
        log_probs = self._log_probs(batch.obs, batch.mask)
        probs = log_probs.exp()
        actor_loss = (probs * (alpha * log_probs - q.amin(0))).sum(-1).mean()
        self.step(actor_optimizer, actor_loss, self.max_grad_norm)
        entropy = -(probs * log_probs).sum(-1).detach().mean()
        if alpha_optimizer:
            self.step(alpha_optimizer[0], self.log_alpha * (entropy - self.target_entropy))
        return {"train/actor_loss": actor_loss, "train/entropy": entropy}

    def _update_targets(self) -> None:
        self.updates += 1
        if self.updates % self.target_every == 0:
            polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)

    def _log_probs(self, obs: Tensor, mask: Tensor | None) -> Tensor:
        """Of every action; an illegal one's is low but small enough to be multiplied by a probability of 0."""
        return torch.log_softmax(mask_logits(self.policy(self.torso(obs)), mask), -1).clamp_min(-1e4)

    def exports(self) -> dict[str, Exported]:
        if not describable(self.network, self.torso, self.spec):
            return {}
        return {
            "policy": HeadPolicy.export_spec(
                self.spec, self.network, normalize_obs=isinstance(self.norm, RunningObsNorm)
            )
        }

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        optimizers = [
            build([*self.torso.parameters(), *self.policy.parameters()], self.lr),
            build(self.q.parameters(), self.critic_lr),
        ]
        return [*optimizers, build([self.log_alpha], self.alpha_lr)] if self.learn_alpha else optimizers
