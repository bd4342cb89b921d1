"""TD-MPC (Hansen, Wang & Su 2022): task-oriented latent dynamics, two value functions, planning at every step."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import freeze_weights
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_update
from rl_lightning.models.imagined_windows import ImaginedLatents, ImaginedWindows
from rl_lightning.models.latent_mpc.latent_world import check_windows, flat_obs
from rl_lightning.models.latent_mpc.told import TOLDModel
from rl_lightning.optim.optimizers import Adam
from rl_lightning.planning.mpc import plan_latent, search_noise
from rl_lightning.planning.planners import MPPI
from rl_lightning.ranges import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import Carry, EnvSpec, Sequences

LIMIT = 1e4  # of each row's losses


class TDMPC(PolicyModule):
    """Learns what to expect along short windows, and plans with it; continuous actions, episodes that do not end.

    Args:
        spec: What the env is like; filled in from the data.
        latent_dim: Width of the latent.
        encoder_hidden_dim: Width of the encoder's hidden layer.
        hidden_dim: Width of the hidden layers of all other networks.
        planner: The search; null: MPPI as in the paper (512 drawn and 25 proposed sequences of 5 steps).
        planner_warmup_updates: Updates over which the horizon grows from 1 and the narrowest width falls from
            `initial_min_std`; 0: none.
        initial_min_std: The planner's narrowest width at the beginning.
        policy_std: Standard deviation of the policy's noise.
        gamma: Discount.
        rho: Weight of each further step of a window.
        consistency_coef: Of the latent's error.
        reward_coef: Of the rewards'.
        value_coef: Of the values'.
        tau: Fraction of the model that the target takes over.
        target_every: Updates between two such moves.
        lr: Learning rate.
        max_grad_norm: Gradients are scaled down to this norm.
    """

    learns_from = (Sequences,)
    action_kinds = ("continuous",)
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        latent_dim: PositiveInt = 50,
        encoder_hidden_dim: int = 256,
        hidden_dim: int = 512,
        planner: MPPI | None = None,
        planner_warmup_updates: NonNegativeInt = 25_000,
        initial_min_std: float = 0.5,
        policy_std: float = 0.05,
        gamma: Fraction = 0.99,
        rho: Fraction = 0.5,
        consistency_coef: float = 2.0,
        reward_coef: float = 0.5,
        value_coef: float = 0.1,
        tau: PositiveFraction = 0.01,
        target_every: PositiveInt = 2,
        lr: NonNegativeFloat = 1e-3,
        max_grad_norm: PositiveFloat = 10.0,
    ) -> None:
        super().__init__(spec)
        self.model = TOLDModel(
            flat_obs(spec, "TDMPC"), spec.action_dim, latent_dim, encoder_hidden_dim, hidden_dim, policy_std
        )
        self.target_model = copy.deepcopy(self.model).requires_grad_(False)
        self.planner = planner or MPPI(horizon=5, num_samples=537, num_pi_trajs=25, momentum=0.1)
        self.planner_warmup_updates, self.initial_min_std, self.gamma, self.rho = (
            planner_warmup_updates,
            initial_min_std,
            gamma,
            rho,
        )
        self.consistency_coef, self.reward_coef = consistency_coef, reward_coef
        self.value_coef, self.tau, self.target_every = value_coef, tau, target_every
        self.lr, self.max_grad_norm = lr, max_grad_norm
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def initial_carry(self, count: int) -> Carry:
        shape = (count, self.planner.horizon, self.spec.action_dim)
        return (torch.zeros(shape, device=self.device),)

    def planner_schedule(self) -> tuple[int, float]:
        """How far and how narrowly it plans by now."""
        done = (
            min(1.0, int(self.updates) / self.planner_warmup_updates) if self.planner_warmup_updates else 1.0
        )
        far = int(1 + done * (self.planner.horizon - 1))
        return far, self.initial_min_std + done * (self.planner.min_std - self.initial_min_std)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        horizon, min_std = self.planner_schedule()
        plan = plan_latent(self.planner, self.model, obs, carry[0], self.gamma, generator, horizon, min_std)
        return plan.action, (plan.mean,)

    def evaluation_draw(self, seed: int) -> torch.Generator:
        """Plans are searched for with fresh numbers at every step, as the original evaluates them."""
        return search_noise(seed)

    def imagine_from(self, obs: Tensor, horizon: int = 15, actions: Tensor | None = None) -> ImaginedLatents:
        """What is expected from observations, doing what is given, or what the policy does without its noise."""

        def choose(latent: Tensor, t: int) -> Tensor:
            return torch.tanh(self.model.policy(latent)) if actions is None else actions[:, t]

        return self.model.imagine(obs, choose, horizon if actions is None else actions.shape[1])

    def imagine_windows(self, data: Any, horizon: int) -> ImaginedWindows | None:
        rows = data.play_windows(self, horizon + 1)
        return None if rows is None else self.model.imagined_windows(rows)

    def update(self, batch: Sequences) -> Metrics:
        """Rows t = 0 ... H of a window: action[t] leads from obs[t] to obs[t + 1], reward[t + 1] is what it paid."""
        metrics, latents = self._model_step(batch, ("consistency", "reward", "value"))
        metrics |= self._policy_step(latents)
        self._update_targets()
        return metrics

    def update_world_model(self, batch: Sequences) -> Metrics:
        """What comes next and what it pays, without what it is worth."""
        metrics, _ = self._model_step(batch, ("consistency", "reward"))
        self._update_targets()
        return metrics

    def update_controller(self, batch: Sequences) -> Metrics:
        """The values and the policy, on latents of a world that stays as it is."""
        with freeze_weights(self.model.encoder, self.model.dynamics, self.model.reward):
            metrics, latents = self._model_step(batch, ("value",))
            metrics |= self._policy_step(latents)
        self._update_targets()
        return metrics

    def _model_step(self, batch: Sequences, learned: tuple[str, ...]) -> tuple[Metrics, Tensor]:
        """Learns these of consistency, reward and value along the windows; metrics, and the latents [H+1, B, Z]."""
        check_windows(batch, self.planner.horizon)
        if bool(batch.terminated.any()):
            raise ConfigError(
                f"{self.spec.env_id} ends its episodes, which TD-MPC does not learn. Use TDMPC2"
            )
        obs, action = batch.obs.transpose(0, 1), batch.action.transpose(0, 1)[:-1]
        reward = batch.reward.T[1:]  # [H, B]
        latent, latents = self.model.encode(obs[0]), []
        nothing = torch.zeros_like(reward[0])
        consistency, reward_loss, value_loss, wrong = nothing, nothing, nothing, nothing
        with torch.no_grad():
            goal, target = self.target_model.encode(obs[1:]), self._target(obs[1:], reward)
        for t, each in enumerate(action.unbind()):
            latents.append(latent.detach())
            q = self.model.q(torch.cat((latent, each), -1))  # [2, B]
            latent, guess = self.model.step(latent, each)
            weight = self.rho**t
            consistency = consistency + weight * (latent - goal[t]).square().mean(-1)
            reward_loss = reward_loss + weight * (guess - reward[t]).square()
            value_loss = value_loss + weight * (q - target[t]).square().sum(0)
            wrong = wrong + weight * (q - target[t]).detach().abs().sum(0)
        latents.append(latent.detach())
        weighted = {
            "consistency": self.consistency_coef * consistency.clamp(max=LIMIT),
            "reward": self.reward_coef * reward_loss.clamp(max=LIMIT),
            "value": self.value_coef * value_loss.clamp(max=LIMIT),
        }
        rows = sum((weighted[name] for name in learned), torch.zeros_like(consistency))
        rows = rows if batch.weight is None else batch.weight * rows
        loss = rows.mean() / len(action)
        norm = self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        metrics = {
            "train/loss": loss.detach(), "world_model/consistency_loss": consistency.detach().mean(),
            "world_model/reward_loss": reward_loss.detach().mean(),
            "world_model/value_loss": value_loss.detach().mean(),
            "train/td_target": target.mean(), "priority": wrong.clamp(max=LIMIT),
        }  # fmt: skip
        metrics |= {} if norm is None else {"train/grad_norm": norm}
        return metrics, torch.stack(latents)

    def _update_targets(self) -> None:
        self.updates += 1
        if self.updates % self.target_every == 0:
            polyak_update(list(self.target_model.parameters()), list(self.model.parameters()), self.tau)

    def _target(self, next_obs: Tensor, reward: Tensor) -> Tensor:  # [H, B, O], [H, B] -> [H, B]
        latent = self.model.encode(next_obs)
        action = self.model.choose(
            latent, torch.randn((*reward.shape, self.spec.action_dim), device=reward.device)
        )
        return reward + self.gamma * self.target_model.q(torch.cat((latent, action), -1)).amin(0)

    def _policy_step(self, latents: Tensor) -> Metrics:
        noise = torch.randn((*latents.shape[:2], self.spec.action_dim), device=latents.device)
        action = self.model.choose(latents, noise)
        value = self.model.q(torch.cat((latents, action), -1)).amin(0).mean(1)  # [H+1]
        weight = self.rho ** torch.arange(len(value), device=value.device, dtype=value.dtype)
        loss = -(weight * value).sum()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        return {"train/policy_loss": loss.detach(), "train/q_values": value.detach().mean()}

    def configure_optimizers(self) -> list[Optimizer]:
        model, build = self.model, Adam
        parts = (model.encoder, model.dynamics, model.reward, model.q)
        own = [p for part in parts for p in part.parameters()]
        return [build(own, self.lr), build(model.policy.parameters(), self.lr)]
