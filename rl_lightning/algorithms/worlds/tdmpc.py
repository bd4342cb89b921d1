"""TD-MPC (Hansen, Wang & Su 2022): task-oriented latent dynamics, two value functions, planning at every step."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_
from rl_lightning.models.latent_mpc.latent_world import check_windows, flat_obs
from rl_lightning.models.latent_mpc.told import PlainModel
from rl_lightning.optim.optimizers import Adam
from rl_lightning.planning.mpc import plan_latent, search_noise
from rl_lightning.planning.planners import MPPI
from rl_lightning.types import Carry, EnvSpec, Sequences

LIMIT = 1e4  # of each row's losses


class TDMPC(PolicyModule):
    """Learns what to expect along short windows, and plans with it; continuous actions, episodes that do not end.

    Args:
        spec: What the env is like; filled in from the data.
        latent: Width of the latent.
        encoder_hidden: Width of the encoder's hidden layer.
        hidden: Width of the hidden layers of all other networks.
        planner: The search; null: MPPI as in the paper (512 drawn and 25 proposed sequences of 5 steps).
        warmup: Updates over which the horizon grows from 1 and the narrowest width falls from `first_std`; 0: none.
        first_std: The planner's narrowest width at the beginning.
        noise: Standard deviation of the policy's noise.
        gamma: Discount.
        rho: Weight of each further step of a window.
        consistency_weight: Of the latent's error.
        reward_weight: Of the rewards'.
        value_weight: Of the values'.
        target_rate: Share of the model that the slow one takes over.
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
        latent: int = 50,
        encoder_hidden: int = 256,
        hidden: int = 512,
        planner: MPPI | None = None,
        warmup: int = 25_000,
        first_std: float = 0.5,
        noise: float = 0.05,
        gamma: float = 0.99,
        rho: float = 0.5,
        consistency_weight: float = 2.0,
        reward_weight: float = 0.5,
        value_weight: float = 0.1,
        target_rate: float = 0.01,
        target_every: int = 2,
        lr: float = 1e-3,
        max_grad_norm: float = 10.0,
    ) -> None:
        super().__init__(spec)
        if warmup < 0 or target_every < 1:
            raise ConfigError("model.warmup must not be negative, model.target_every at least 1")
        self.model = PlainModel(
            flat_obs(spec, "TDMPC"), spec.action_dim, latent, encoder_hidden, hidden, noise
        )
        self.slow = copy.deepcopy(self.model).requires_grad_(False)
        self.planner = planner or MPPI(horizon=5, samples=537, policy_samples=25, momentum=0.1)
        self.warmup, self.first_std, self.gamma, self.rho = warmup, first_std, gamma, rho
        self.consistency_weight, self.reward_weight = consistency_weight, reward_weight
        self.value_weight, self.target_rate, self.target_every = value_weight, target_rate, target_every
        self.lr, self.max_grad_norm = lr, max_grad_norm
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def initial_carry(self, count: int) -> Carry:
        shape = (count, self.planner.horizon, self.spec.action_dim)
        return (torch.zeros(shape, device=self.device),)

    def schedule(self) -> tuple[int, float]:
        """How far and how narrowly it plans by now."""
        done = min(1.0, int(self.updates) / self.warmup) if self.warmup else 1.0
        far = int(1 + done * (self.planner.horizon - 1))
        return far, self.first_std + done * (self.planner.min_std - self.first_std)

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        horizon, min_std = self.schedule()
        plan = plan_latent(self.planner, self.model, obs, carry[0], self.gamma, explore, horizon, min_std)
        return plan.action, (plan.mean,)

    def evaluation_draw(self, seed: int) -> torch.Generator:
        """Plans are searched for with fresh numbers at every step, as the original evaluates them."""
        return search_noise(seed)

    def update(self, batch: Sequences) -> Metrics:
        """Rows t = 0 ... H of a window: action[t] leads from obs[t] to obs[t + 1], reward[t + 1] is what it paid."""
        check_windows(batch, self.planner.horizon)
        if bool(batch.terminated.any()):
            raise ConfigError(
                f"{self.spec.env_id} ends its episodes, which TD-MPC does not learn. Use TDMPC2"
            )
        obs, action = batch.obs.transpose(0, 1), batch.action.transpose(0, 1)[:-1]
        reward = batch.reward.T[1:]  # [H, B]
        latent, latents = self.model.encode(obs[0]), []
        nothing = torch.zeros_like(reward[0])
        consistency, paid, worth, wrong = nothing, nothing, nothing, nothing
        with torch.no_grad():
            goal, target = self.slow.encode(obs[1:]), self._target(obs[1:], reward)
        for t, each in enumerate(action.unbind()):
            latents.append(latent.detach())
            q = self.model.q(torch.cat((latent, each), -1))  # [2, B]
            latent, guess = self.model.step(latent, each)
            weight = self.rho**t
            consistency = consistency + weight * (latent - goal[t]).square().mean(-1)
            paid = paid + weight * (guess - reward[t]).square()
            worth = worth + weight * (q - target[t]).square().sum(0)
            wrong = wrong + weight * (q - target[t]).detach().abs().sum(0)
        latents.append(latent.detach())
        rows = self.consistency_weight * consistency.clamp(max=LIMIT)
        rows = rows + self.reward_weight * paid.clamp(max=LIMIT) + self.value_weight * worth.clamp(max=LIMIT)
        rows = rows if batch.weight is None else batch.weight * rows
        loss = rows.mean() / len(action)
        model_optimizer, policy_optimizer = self.raw_optimizers()
        norm = self.step(model_optimizer, loss, self.max_grad_norm)
        metrics = {
            "train/loss": loss.detach(), "world_model/consistency": consistency.detach().mean(),
            "world_model/reward": paid.detach().mean(), "world_model/value": worth.detach().mean(),
            "train/target": target.mean(), "priority": wrong.clamp(max=LIMIT),
        }  # fmt: skip
        metrics |= self._policy_step(torch.stack(latents), policy_optimizer)
        self.updates += 1
        if self.updates % self.target_every == 0:
            polyak_(list(self.slow.parameters()), list(self.model.parameters()), self.target_rate)
        return metrics | ({} if norm is None else {"train/grad_norm": norm})

    def _target(self, next_obs: Tensor, reward: Tensor) -> Tensor:  # [H, B, O], [H, B] -> [H, B]
        latent = self.model.encode(next_obs)
        action = self.model.choose(
            latent, torch.randn((*reward.shape, self.spec.action_dim), device=reward.device)
        )
        return reward + self.gamma * self.slow.q(torch.cat((latent, action), -1)).amin(0)

    def _policy_step(self, latents: Tensor, optimizer: Optimizer) -> Metrics:
        noise = torch.randn((*latents.shape[:2], self.spec.action_dim), device=latents.device)
        action = self.model.choose(latents, noise)
        value = self.model.q(torch.cat((latents, action), -1)).amin(0).mean(1)  # [H+1]
        weight = self.rho ** torch.arange(len(value), device=value.device, dtype=value.dtype)
        loss = -(weight * value).sum()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/policy_loss": loss.detach(), "train/q": value.detach().mean()}

    def configure_optimizers(self) -> list[Optimizer]:
        model, build = self.model, Adam().build
        parts = (model.encoder, model.dynamics, model.reward, model.q)
        own = [p for part in parts for p in part.parameters()]
        return [build(own, self.lr), build(model.policy.parameters(), self.lr)]
