"""Batch-constrained Q-learning (Fujimoto et al. 2019): only actions that the data could hold are valued or taken."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Provided
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_, soft_clipped_q, td_target
from rl_lightning.models.bcq_policy import BCQPolicy
from rl_lightning.models.policies import flat_width
from rl_lightning.nn.own_networks import NetworkLike, network_or_sizes
from rl_lightning.optim.optimizers import Adam, OptimizerRecipe
from rl_lightning.types import Carry, EnvSpec, Transitions


class BCQ(PolicyModule):
    """A generative model of the data's actions, a small perturbation, and twin critics that choose.

    Args:
        spec: What the data are like; filled in from them.
        hidden: Hidden sizes of the perturbation and of each critic.
        vae_hidden: Hidden sizes of the model of the data's actions; it is most of the cost.
        reach: Largest change that the perturbation makes to an action.
        low_share: Weight of the lower critic in the target; the rest is the higher one's.
        target_candidates: Actions of which the target takes the best.
        candidates: Actions of which acting takes the best.
        kl_weight: Weight of the KL term of the model of the data's actions.
        target_rate: Share of the networks that the slow ones take over at each update.
        gamma: Discount.
        lr: Learning rate.
        optimizer: The optimizer of all three parts, without its rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        network: What turns an observation with an action into features of the perturbation and of each critic, instead
            of `hidden`.
        vae_network: What turns an observation with an action (in the decoder: with a code) into features of the model
            of the data's actions, instead of `vae_hidden`.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        hidden: list[int] | None = None,
        vae_hidden: list[int] | None = None,
        reach: float = 0.05,
        low_share: float = 0.75,
        target_candidates: int = 10,
        candidates: int = 100,
        kl_weight: float = 0.5,
        target_rate: float = 0.005,
        gamma: float = 0.99,
        lr: float = 1e-3,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float | None = None,
        network: NetworkLike | None = None,
        vae_network: NetworkLike | None = None,
    ) -> None:
        super().__init__(spec)
        if min(target_candidates, candidates) < 1:
            raise ConfigError("model.candidates and model.target_candidates must be at least 1")
        if not 0.0 <= low_share <= 1.0:
            raise ConfigError(f"model.low_share is {low_share}; it must lie between 0 and 1")
        self.low_share, self.target_candidates, self.kl_weight = low_share, target_candidates, kl_weight
        self.target_rate, self.gamma, self.lr = target_rate, gamma, lr
        self.optimizer, self.max_grad_norm = optimizer or Adam(), max_grad_norm
        recipe = network_or_sizes(network, hidden, "network", "hidden")
        vae_recipe = network_or_sizes(vae_network, vae_hidden, "vae_network", "vae_hidden")
        width, hidden, vae_hidden = flat_width(spec, "BCQ"), hidden or [400, 300], vae_hidden or [750, 750]
        self.policy = BCQPolicy(
            width, spec.action_dim, hidden, vae_hidden, reach, candidates, recipe, vae_recipe
        )
        self.actor_slow = copy.deepcopy(self.policy.actor).requires_grad_(False)
        self.q_slow = copy.deepcopy(self.policy.q).requires_grad_(False)

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        if explore is None:
            return self.policy.greedy(obs), carry
        return self.policy.sample(obs, explore), carry

    def update(self, batch: Transitions) -> Metrics:
        vae_optimizer, critic_optimizer, actor_optimizer = self.raw_optimizers()
        error, kl = self.policy.vae.loss(batch.obs, batch.action)
        self.step(vae_optimizer, error + self.kl_weight * kl, self.max_grad_norm)

        q = self.policy.q(batch.obs, batch.action)
        critic_loss = 0.5 * (batch.weight * (q - self._target(batch)).square()).mean(-1).sum()
        self.step(critic_optimizer, critic_loss, self.max_grad_norm)

        with torch.no_grad():
            likely = self.policy.likely(batch.obs)
        actor_loss = -self.policy.q(batch.obs, self.policy.actor(batch.obs, likely))[0].mean()
        self.step(actor_optimizer, actor_loss, self.max_grad_norm)
        self._follow()
        return {
            "train/vae_error": error,
            "train/vae_kl": kl,
            "train/critic_loss": critic_loss,
            "train/q": q.mean(),
            "train/actor_loss": actor_loss,
        }

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        next_obs = batch.next_obs.repeat_interleave(self.target_candidates, 0)  # [B*K, O]
        action = self.actor_slow(next_obs, self.policy.likely(next_obs))
        value = soft_clipped_q(self.q_slow(next_obs, action), self.low_share)
        best = value.view(-1, self.target_candidates).amax(-1)
        return td_target(batch.reward, best, batch.terminated, batch.discount)

    def _follow(self) -> None:
        polyak_(list(self.q_slow.parameters()), list(self.policy.q.parameters()), self.target_rate)
        polyak_(list(self.actor_slow.parameters()), list(self.policy.actor.parameters()), self.target_rate)

    def provides(self) -> dict[str, Provided]:
        return {"policy": self.policy.provided("policy.")} if self.policy.describable else {}

    def configure_optimizers(self) -> list[Optimizer]:
        parts = (self.policy.vae, self.policy.q, self.policy.actor)
        return [self.optimizer.build(part.parameters(), self.lr) for part in parts]
