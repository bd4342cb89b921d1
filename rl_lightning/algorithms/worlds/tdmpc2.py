"""TD-MPC2 (Hansen, Su & Wang 2024): a latent model of simplices, values as classes, and planning at every step."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning import distributed
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.errors import ConfigError
from rl_lightning.functional.value import polyak_update
from rl_lightning.models.imagined_windows import ImaginedLatents, ImaginedWindows
from rl_lightning.models.latent_mpc.latent_encoder import random_shift
from rl_lightning.models.latent_mpc.latent_world import (
    SimNormModel,
    check_windows,
    discount_for,
    gaussian_entropy_estimate,
)
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import Adam
from rl_lightning.planning.mpc import plan_latent, search_noise
from rl_lightning.planning.planners import MPPI
from rl_lightning.ranges import (
    Fraction,
    FractionBelowOne,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import Carry, EnvSpec, Sequences

Size = Literal["1M", "5M", "19M", "48M", "317M"]
SIZES: dict[str, dict[str, Any]] = {
    "1M": {"latent_dim": 128, "encoder_hidden_dims": [256], "hidden_dim": 384, "num_critics": 2},
    "5M": {"latent_dim": 512, "encoder_hidden_dims": [256], "hidden_dim": 512, "num_critics": 5},
    "19M": {"latent_dim": 768, "encoder_hidden_dims": [1024] * 2, "hidden_dim": 1024, "num_critics": 5},
    "48M": {"latent_dim": 768, "encoder_hidden_dims": [1792] * 3, "hidden_dim": 1792, "num_critics": 5},
    "317M": {"latent_dim": 1376, "encoder_hidden_dims": [4096] * 4, "hidden_dim": 4096, "num_critics": 8},
}


class LatentWindow(NamedTuple):
    """What is learned from: rows t = 0 ... H, time first."""

    first: Tensor  # [B, O]
    action: Tensor  # [H, B, A], from row t to row t + 1
    reward: Tensor  # [H, B], what that paid
    terminated: Tensor  # [H, B]
    goal: Tensor  # [H, B, Z], what the latents should become; nothing is learned through it


class TDMPC2(PolicyModule):
    """Learns what to expect along short windows, and plans with it; continuous actions.

    Args:
        spec: What the env is like; filled in from the data.
        model_size: The authors' preset that the four sizes below come from where they are null.
        latent_dim: Width of the latent.
        encoder_hidden_dims: Hidden sizes of the encoder.
        hidden_dim: Width of the hidden layers of all other networks.
        num_critics: Value functions; targets take the lower of two drawn at random, plans their mean.
        simnorm_dim: Numbers of the latent that sum to 1.
        num_bins: Of a reward or value; two-hot in symlog space from -10 to 10.
        dropout: In the first layer of the value functions.
        planner: The search; null: MPPI as in the paper (two iterations more from 20 action dimensions on).
        gamma: Discount; null: from the length of an episode.
        rho: Weight of each further step of a window.
        consistency_coef: Of the latent's error.
        reward_coef: Of the rewards'.
        value_coef: Of the values'.
        termination_coef: Of the ends', where `episodic`.
        ent_coef: Of the policy's entropy.
        episodic: Learn and plan with the ends of episodes; without it an env that ends them is refused while training.
            null: `rl fit` looks whether random play meets an end, and writes it down; elsewhere false.
        tau: Fraction of the value functions that the targets take over, and of the value scale that is new.
        lr: Learning rate.
        encoder_lr_scale: The encoder's learning rate is this fraction of it.
        max_grad_norm: Gradients are scaled down to this norm.
        encoder: Network that sees observations before the encoder's hidden layers; null: the paper's convolutions for
            pictures, none for vectors.
        shift_pixels: Pictures that are learned from are moved by up to so many pixels; 0 leaves them where they are.
    """

    learns_from = (Sequences,)
    action_kinds = ("continuous",)
    takes_pictures_beside_vectors = True
    scale: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        model_size: Size = "5M",
        latent_dim: PositiveInt | None = None,
        encoder_hidden_dims: list[PositiveInt] | None = None,
        hidden_dim: int | None = None,
        num_critics: PositiveInt | None = None,
        simnorm_dim: int = 8,
        num_bins: int = 101,
        dropout: FractionBelowOne = 0.01,
        planner: MPPI | None = None,
        gamma: Fraction | None = None,
        rho: Fraction = 0.5,
        consistency_coef: float = 20.0,
        reward_coef: float = 0.1,
        value_coef: float = 0.1,
        termination_coef: PositiveFloat = 1.0,
        ent_coef: float = 1e-4,
        episodic: bool | None = None,
        tau: PositiveFraction = 0.01,
        lr: NonNegativeFloat = 3e-4,
        encoder_lr_scale: float = 0.3,
        max_grad_norm: PositiveFloat = 20.0,
        encoder: Network | None = None,
        shift_pixels: NonNegativeInt = 3,
    ) -> None:
        super().__init__(spec)
        episodic = bool(episodic)
        own_sizes = {
            "latent_dim": latent_dim,
            "encoder_hidden_dims": encoder_hidden_dims,
            "hidden_dim": hidden_dim,
            "num_critics": num_critics,
        }
        sizes = SIZES[model_size] | {key: value for key, value in own_sizes.items() if value is not None}
        if sizes["num_critics"] < 2:
            raise ConfigError(f"model.num_critics is {sizes['num_critics']}; TD-MPC2 needs at least 2")
        self.model = SimNormModel(
            spec.obs_layout,
            spec.action_dim,
            simnorm_dim=simnorm_dim,
            num_bins=num_bins,
            dropout=dropout,
            episodic=episodic,
            encoder=encoder,
            **sizes,
        )
        self.q_target = copy.deepcopy(self.model.q).requires_grad_(False)
        self.planner = planner or MPPI(iterations=6 + 2 * (spec.action_dim >= 20))
        limit = spec.max_episode_steps
        self.gamma = gamma or discount_for(None if limit is None else -(-limit // spec.action_repeat))
        self.rho, self.episodic, self.tau = rho, episodic, tau
        self.weights = {"consistency": consistency_coef, "reward": reward_coef, "value": value_coef}
        self.weights |= {"terminated": termination_coef} if episodic else {}
        self.ent_coef, self.lr, self.encoder_lr_scale = ent_coef, lr, encoder_lr_scale
        self.max_grad_norm, self.shift_pixels = max_grad_norm, shift_pixels
        self.register_buffer("scale", torch.ones(()))  # spread of the values, for the policy's loss

    def initial_carry(self, count: int) -> Carry:
        shape = (count, self.planner.horizon, self.spec.action_dim)
        return (torch.zeros(shape, device=self.device),)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        plan = plan_latent(self.planner, self.model, obs, carry[0], self.gamma, generator)
        return plan.action, (plan.mean,)

    def evaluation_draw(self, seed: int) -> torch.Generator:
        """Plans are searched for with fresh numbers at every step, as the original evaluates them."""
        return search_noise(seed)

    def imagine_from(self, obs: Tensor, horizon: int = 15, actions: Tensor | None = None) -> ImaginedLatents:
        """What is expected from observations, doing what is given, or what the policy does without its noise."""

        def choose(latent: Tensor, t: int) -> Tensor:
            return torch.tanh(self.model.gaussian(latent)[0]) if actions is None else actions[:, t]

        return self.model.imagine(obs, choose, horizon if actions is None else actions.shape[1])

    def imagine_windows(self, data: Any, horizon: int) -> ImaginedWindows | None:
        rows = data.play_windows(self, horizon + 1)
        return None if rows is None else self.model.imagined_windows(rows)

    def update(self, batch: Sequences) -> Metrics:
        """Rows t = 0 ... H of a window: action[t] leads from obs[t] to obs[t + 1], reward[t + 1] is what it paid."""
        window = self._window(batch)
        with torch.no_grad():
            target = self._target(window.goal, window.reward, window.terminated)
        latents = self._unroll(window)
        losses = self._model_losses(latents, window)
        losses["value"] = self._value_loss(latents[:-1], window.action, target)
        metrics = self._model_step(losses)
        metrics |= self._policy_step(latents.detach())
        self._update_targets()
        return metrics | {"train/td_target": target.mean()}

    def update_world_model(self, batch: Sequences) -> Metrics:
        """What comes next and what it pays, without what it is worth."""
        window = self._window(batch)
        return self._model_step(self._model_losses(self._unroll(window), window))

    def update_controller(self, batch: Sequences) -> Metrics:
        """The values and the policy, on latents of a world that stays as it is."""
        window = self._window(batch)
        with torch.no_grad():
            target = self._target(window.goal, window.reward, window.terminated)
            latents = self._unroll(window)
        metrics = self._model_step({"value": self._value_loss(latents[:-1], window.action, target)})
        metrics |= self._policy_step(latents)
        self._update_targets()
        return metrics | {"train/td_target": target.mean()}

    def _window(self, batch: Sequences) -> LatentWindow:
        self._check(batch)
        seen = random_shift(batch.obs, self.shift_pixels) if self.spec.is_pixels else batch.obs
        obs, action = seen.transpose(0, 1), batch.action.transpose(0, 1)[:-1]
        with torch.no_grad():
            goal = self.model.encode(obs[1:])
        return LatentWindow(obs[0], action, batch.reward.T[1:], batch.terminated.T[1:], goal)

    def _model_step(self, losses: dict[str, Tensor]) -> Metrics:
        loss = sum(
            (self.weights[name] * value for name, value in losses.items()), torch.zeros_like(self.scale)
        )
        norm = self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        metrics = {f"world_model/{name}": value.detach() for name, value in losses.items()}
        metrics["train/loss"] = loss.detach()
        return metrics | ({} if norm is None else {"train/grad_norm": norm})

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.model.q.parameters()), self.tau)

    def _check(self, batch: Sequences) -> None:
        check_windows(batch, self.planner.horizon)
        if not self.episodic and bool(batch.terminated.any()):
            raise ConfigError(
                f"{self.spec.env_id} ends its episodes. Use --model.episodic true (the authors call it experimental)"
            )

    def _unroll(self, window: LatentWindow) -> Tensor:
        """Latents of the window by the model's own steps.  -> [H+1, B, Z]"""
        latents = [self.model.encode(window.first)]
        for each in window.action.unbind():
            latents.append(self.model.dynamics(torch.cat((latents[-1], each), -1)))
        return torch.stack(latents)

    def _target(self, goal: Tensor, reward: Tensor, terminated: Tensor) -> Tensor:  # -> [H, B]
        mean, log_std = self.model.gaussian(goal)
        action = torch.tanh(mean + log_std.exp() * torch.randn_like(mean))
        value = self._values(self.q_target, goal, action).amin(0)
        return reward + self.gamma * (1.0 - terminated) * value

    def _values(self, q: Any, latent: Tensor, action: Tensor, dropping: bool = False) -> Tensor:
        """Two members drawn at random.  [H, B, Z], [H, B, A] -> [2, H, B]"""
        which = torch.randperm(self.model.num_critics, device=latent.device)[:2]
        logits = q(torch.cat((latent, action), -1).flatten(0, 1), which, dropping)
        return self.model.decode_value(logits).unflatten(1, latent.shape[:2])

    def _model_losses(self, latents: Tensor, window: LatentWindow) -> dict[str, Tensor]:
        both = torch.cat((latents[:-1], window.action), -1).flatten(0, 1)
        error = (latents[1:] - window.goal).square().mean((1, 2))
        reward_loss = self.model.two_hot_loss(self.model.reward(both), window.reward.flatten())
        losses = {
            "consistency": self._over_horizon(error),
            "reward": self._over_horizon(reward_loss.view_as(window.reward).mean(1)),
        }
        if self.model.terminated is not None:
            logits = self.model.terminated(latents[1:])[..., 0]
            losses["terminated"] = F.binary_cross_entropy_with_logits(logits, window.terminated)
        return losses

    def _value_loss(self, latents: Tensor, action: Tensor, target: Tensor) -> Tensor:
        both = torch.cat((latents, action), -1).flatten(0, 1)
        values = self.model.two_hot_loss(self.model.q(both, dropping=True), target.flatten())  # [E, H * B]
        return self._over_horizon(values.view(-1, *target.shape).mean((0, 2)))

    def _over_horizon(self, loss: Tensor) -> Tensor:
        """The mean of a loss [H], later steps weighing less."""
        weight = self.rho ** torch.arange(len(loss), device=loss.device, dtype=loss.dtype)
        return (weight * loss).sum() / len(loss)

    def _policy_step(self, latents: Tensor) -> Metrics:
        mean, log_std = self.model.gaussian(latents)
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + log_std.exp() * noise)
        value = self._values(self.model.q, latents, action, dropping=True).mean(0)  # [H+1, B]
        self._rescale(value[0].detach())
        entropy = gaussian_entropy_estimate(noise, log_std)
        weight = self.rho ** torch.arange(len(value), device=value.device, dtype=value.dtype)
        gain = (self.ent_coef * entropy + value / self.scale.clone()).mean(1)
        loss = -(weight * gain).mean()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        return {
            "train/policy_loss": loss.detach(),
            "train/entropy": entropy.detach().mean(),
            "train/q_values": value.detach().mean(),
            "train/pi_scale": self.scale.clone(),
        }

    def _rescale(self, value: Tensor) -> None:
        """Follows the spread of the first step's values between their 5th and 95th percentiles, at least 1."""
        levels = torch.tensor([0.05, 0.95], device=value.device, dtype=value.dtype)
        low, high = torch.quantile(value, levels)
        spread = (high - low).clamp(min=1.0).reshape(1)
        distributed.average_([spread])
        self.scale.lerp_(spread[0], self.tau)

    def configure_optimizers(self) -> list[Optimizer]:
        model, build = self.model, Adam
        parts = [model.dynamics, model.reward, model.q] + ([model.terminated] if model.terminated else [])
        main = build([p for part in parts for p in part.parameters()], self.lr)
        main.add_param_group(
            {"params": list(model.encoder.parameters()), "lr": self.lr * self.encoder_lr_scale}
        )
        return [main, Adam(model.policy.parameters(), self.lr, eps=1e-5)]
