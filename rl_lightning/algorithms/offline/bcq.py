"""Batch-constrained Q-learning (Fujimoto et al. 2019): only actions that the data could hold are valued or taken."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.value import polyak_update, soft_clipped_double_q, td_target
from rl_lightning.models.bcq_policy import BCQPolicy
from rl_lightning.models.policies import flat_width
from rl_lightning.nn.own_torso import check_network_or_sizes
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveFraction, PositiveInt
from rl_lightning.types import Carry, EnvSpec, Transitions


class BCQ(PolicyModule):
    """A generative model of the data's actions, a small perturbation, and twin critics that choose.

    Args:
        spec: What the data are like; filled in from them.
        hidden_dims: Hidden sizes of the perturbation and of each critic.
        vae_hidden_dims: Hidden sizes of the model of the data's actions; it is most of the cost.
        phi: Largest change that the perturbation makes to an action.
        lmbda: Weight of the lower critic in the target; the rest is the higher one's.
        num_target_samples: Actions of which the target takes the best.
        num_samples: Actions of which acting takes the best.
        kl_coef: Weight of the KL term of the model of the data's actions.
        tau: Fraction of the networks that the targets take over at each update.
        gamma: Discount.
        lr: Learning rate.
        optimizer: The optimizer of all three parts, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation with an action into features of the perturbation and of each critic, instead
            of `hidden_dims`.
        vae_network: What turns an observation with an action (in the decoder: with a code) into features of the model
            of the data's actions, instead of `vae_hidden_dims`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        hidden_dims: list[PositiveInt] | None = None,
        vae_hidden_dims: list[PositiveInt] | None = None,
        phi: float = 0.05,
        lmbda: Fraction = 0.75,
        num_target_samples: PositiveInt = 10,
        num_samples: PositiveInt = 100,
        kl_coef: NonNegativeFloat = 0.5,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        network: Network | None = None,
        vae_network: Network | None = None,
    ) -> None:
        super().__init__(spec)
        self.lmbda, self.num_target_samples, self.kl_coef = lmbda, num_target_samples, kl_coef
        self.tau, self.gamma, self.lr = tau, gamma, lr
        self.optimizer, self.max_grad_norm = optimizer or Adam, max_grad_norm
        check_network_or_sizes(network, hidden_dims, "network", "hidden_dims")
        check_network_or_sizes(vae_network, vae_hidden_dims, "vae_network", "vae_hidden_dims")
        width, hidden_dims, vae_hidden_dims = (
            flat_width(spec, "BCQ"),
            hidden_dims or [400, 300],
            vae_hidden_dims or [750, 750],
        )
        self.policy = BCQPolicy(
            width, spec.action_dim, hidden_dims, vae_hidden_dims, phi, num_samples, network, vae_network
        )
        self.actor_target = copy.deepcopy(self.policy.actor).requires_grad_(False)
        self.q_target = copy.deepcopy(self.policy.q).requires_grad_(False)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        if generator is None:
            return self.policy.greedy(obs), carry
        return self.policy.sample(obs, generator), carry

    def update(self, batch: Transitions) -> Metrics:
        vae_optimizer, critic_optimizer, actor_optimizer = self.raw_optimizers()
        error, kl = self.policy.vae.loss(batch.obs, batch.action)
        self.step(vae_optimizer, error + self.kl_coef * kl, self.max_grad_norm)

        q = self.policy.q(batch.obs, batch.action)
        critic_loss = 0.5 * (batch.weight * (q - self._target(batch)).square()).mean(-1).sum()
        self.step(critic_optimizer, critic_loss, self.max_grad_norm)

        with torch.no_grad():
            likely = self.policy.sample_candidates(batch.obs)
        actor_loss = -self.policy.q(batch.obs, self.policy.actor(batch.obs, likely))[0].mean()
        self.step(actor_optimizer, actor_loss, self.max_grad_norm)
        self._update_targets()
        return {
            "train/vae_recon_loss": error,
            "train/vae_kl": kl,
            "train/critic_loss": critic_loss,
            "train/q_values": q.mean(),
            "train/actor_loss": actor_loss,
        }

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        next_obs = batch.next_obs.repeat_interleave(self.num_target_samples, 0)  # [B*K, O]
        action = self.actor_target(next_obs, self.policy.sample_candidates(next_obs))
        value = soft_clipped_double_q(self.q_target(next_obs, action), self.lmbda)
        best = value.view(-1, self.num_target_samples).amax(-1)
        return td_target(batch.reward, best, batch.terminated, batch.discount)

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.policy.q.parameters()), self.tau)
        polyak_update(list(self.actor_target.parameters()), list(self.policy.actor.parameters()), self.tau)

    def exports(self) -> dict[str, Exported]:
        return {"policy": self.policy.exported("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        parts = (self.policy.vae, self.policy.q, self.policy.actor)
        return [self.optimizer(part.parameters(), self.lr) for part in parts]
