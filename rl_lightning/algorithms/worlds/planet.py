"""PlaNet (Hafner et al. 2019): a latent world model, and a planner that searches it anew at every step."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.factories import make
from rl_lightning.models.imagined_windows import ImaginedWindows
from rl_lightning.models.rssm.latent_actors import env_actions
from rl_lightning.models.rssm.open_loop import imagine_played
from rl_lightning.models.rssm.rssm import LatentState
from rl_lightning.models.rssm.world_model import ImaginedTrajectory, LatentWorld, LatentWorldFactory
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.planning.planners import CEM, Planner
from rl_lightning.ranges import Fraction, NonNegativeFloat, PositiveFloat
from rl_lightning.types import Carry, EnvSpec, Sequences


class PlaNet(PolicyModule):
    """Learns a world model and acts by planning in it; there is no policy and no value.

    Args:
        spec: What the env is like; filled in from the data.
        world_model: The world model and its losses.
        planner: What searches for actions; its `noise` is added when collecting.
        gamma: Discount of rewards along a plan where the world has a head for episodes' ends; else there is none.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
    """

    learns_from = (Sequences,)
    takes_pictures_beside_vectors = True
    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        world_model: LatentWorldFactory | None = None,
        planner: Planner | None = None,
        gamma: Fraction = 0.99,
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = 1000.0,
    ) -> None:
        super().__init__(spec)
        self.gamma, self.lr, self.max_grad_norm = gamma, lr, max_grad_norm
        self.optimizer = optimizer or partial(Adam, eps=1e-4)
        self.planner = planner or CEM(exploration_noise=0.3)
        self.world_model = make(world_model or LatentWorld, LatentWorld, "world_model", spec, gamma)

    def initial_carry(self, count: int) -> Carry:
        return self.world_model.rssm.initial(count, self.world_model.rssm.post_top.weight)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        state = self.world_model.rssm.obs_step(self.world_model.encoder(obs), carry, generator)
        start = obs.new_zeros((len(obs), self.planner.horizon, self.spec.action_dim), dtype=torch.float32)
        action = self.planner.plan(lambda plans: self.score(state, plans), start, generator).action
        return env_actions(self.spec, action), (state.deter, state.stoch, action)

    def imagine(self, carry: Carry, horizon: int = 12, actions: Tensor | None = None) -> ImaginedTrajectory:
        """What is expected from the state that `act` gave, planning anew in every dreamed state, or as given."""

        def choose(state: LatentState) -> Tensor:
            start = state.deter.new_zeros(len(state.deter), self.planner.horizon, self.spec.action_dim)
            return self.planner.plan(lambda plans: self.score(state, plans), start, None).action

        return self.world_model.imagine(carry, choose, horizon, actions)

    def score(self, state: LatentState, plans: Tensor) -> Tensor:
        """Predicted rewards along one dreamed trajectory of each plan, summed.  [N, K, H, A] -> [N, K]

        Dreams take the likeliest latent at every step: the same state and plan always have the same score.
        """
        rssm, (envs, count, horizon, _) = self.world_model.rssm, plans.shape
        here = LatentState(*(part.repeat_interleave(count, 0) for part in state))
        actions, weights = plans.flatten(0, 1), rssm.cached_weights()
        features = []
        for t in range(horizon):
            here = rssm.img_step(here, actions[:, t], None, weights)
            features.append(here.feature)
        feature = torch.stack(features)  # [H, N * K, F]
        reward = self.world_model.reward_head.value(feature)
        if self.world_model.continue_head is not None:
            ahead = self.world_model.continuation(feature).cumprod(0)
            reward = reward * torch.cat((torch.ones_like(ahead[:1]), ahead[:-1]))
        return reward.sum(0).unflatten(0, (envs, count))

    def imagine_windows(self, data: Any, horizon: int) -> ImaginedWindows | None:
        return imagine_played(self, self.world_model, data, horizon)

    def update(self, batch: Sequences) -> Metrics:
        window = self.world_model.window(batch)
        observed = self.world_model.observe(window)
        losses, divergence = self.world_model.losses(window, observed)
        means = {name: loss.mean() for name, loss in losses.items()}
        norm = self.step(
            self.raw_optimizers()[0], torch.stack(list(means.values())).sum(), self.max_grad_norm
        )
        metrics = {f"world_model/{name}_loss": value.detach() for name, value in means.items()}
        wrong = losses["decoder"].detach() + losses["reward"].detach()
        metrics |= {"world_model/kl": divergence.detach(), "priority": wrong.mean(0)}
        if norm is not None:
            metrics["world_model/grad_norm"] = norm
        return (
            metrics
            if batch.latent is None
            else metrics | {"latent": self.world_model.carry_after_rows(window, observed)}
        )

    def update_world_model(self, batch: Sequences) -> Metrics:
        """The same; there is nothing else to learn."""
        return self.update(batch)

    def configure_optimizers(self) -> list[Optimizer]:
        return [self.optimizer(self.world_model.parameters(), self.lr)]
