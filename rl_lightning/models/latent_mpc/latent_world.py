"""What planning needs of a latent model, and TD-MPC2's: what comes next, what it pays, what follows is worth."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.functional.latent import symexp, symlog, two_hot_bins, two_hot_loss, two_hot_mean
from rl_lightning.models.imagined_windows import (
    ImaginedLatents,
    ImaginedWindows,
    squared_error,
    variance_of,
)
from rl_lightning.models.latent_mpc.latent_encoder import make_latent_encoder
from rl_lightning.nn.normed_mlp import NormedEnsemble, NormedMLP, check_groups
from rl_lightning.nn.torso import Network, Shape, layout_or_shape
from rl_lightning.types import EnvSpec, Sequences

LOG_STD_MIN, LOG_STD_MAX = -10.0, 2.0
LIMIT = 10.0  # of the bins, in symlog space


def flat_obs(spec: EnvSpec, who: str) -> int:
    """The width of flat observations; pictures are refused."""
    if len(spec.obs_shape) != 1:
        raise ConfigError(f"{who} learns from flat observations; {spec.env_id} has {list(spec.obs_shape)}")
    return spec.obs_shape[0]


def discount_for(steps: int | None) -> float:
    """TD-MPC2's discount from the length of an episode in steps of the agent: 200 -> 0.975, 500 -> 0.99."""
    if steps is None:
        return 0.99
    share = steps / 5.0
    return min(max((share - 1.0) / share, 0.95), 0.995)


def check_windows(batch: Sequences, horizon: int) -> None:
    """Refuses windows of another length than a plan, and those that run from one episode into the next."""
    length = batch.obs.shape[1]
    if length != horizon + 1:
        raise ConfigError(
            f"data.sequence_length is {length}; plans of {horizon} steps are learned from windows of {horizon + 1} rows"
        )
    if bool(batch.is_first[:, 1:].any()):
        raise ConfigError("windows cross episodes; use --data.buffer.within_episode true")


class LatentModel(nn.Module):
    """What planning needs of a latent model."""

    @abstractmethod
    def encode(self, obs: Tensor) -> Tensor:
        """[..., O] -> [..., Z]"""

    @abstractmethod
    def step(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The next latent and the reward.  [B, Z], [B, A] -> [B, Z], [B]"""

    def step_many(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The first step of K plans from each latent.  [N, Z], [N, K, A] -> [N K, Z], [N K]"""
        here = latent.unsqueeze(1).expand(-1, action.shape[1], -1)
        return self.step(here.flatten(0, 1), action.flatten(0, 1))

    @abstractmethod
    def sample_action(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        """An action of the policy, with its noise.  [B, Z] -> [B, A]"""

    @abstractmethod
    def value(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        """What is still to come when the plan ends, by the policy.  [B, Z] -> [B]"""

    def termination_prob(self, latent: Tensor) -> Tensor | None:
        """Whether the episode is over there [B]; None where episodes do not end."""
        return None

    @torch.no_grad()
    def imagine(self, obs: Tensor, choose: Callable[[Tensor, int], Tensor], horizon: int) -> ImaginedLatents:
        """`horizon` steps from observations [N, O]; `choose` takes latents [N, Z] and the step, and gives actions."""
        latent, latents, actions, rewards, live = self.encode(obs), [], [], [], []
        for t in range(horizon):
            actions.append(choose(latent, t))
            latent, reward = self.step(latent, actions[-1])
            over = self.termination_prob(latent)
            latents.append(latent)
            rewards.append(reward)
            live.append(torch.ones_like(reward) if over is None else 1.0 - over)
        latent, action, reward, goes_on = (torch.stack(part, 1) for part in (latents, actions, rewards, live))
        return ImaginedLatents(latent, action, reward, goes_on.cumprod(1))

    @torch.no_grad()
    def imagined_windows(self, rows: Sequences) -> ImaginedWindows:
        """The latents that the first rows lead to, beside those of the observations that came: nothing is decoded."""
        seen = self.encode(rows.obs)
        own = self.imagine(rows.obs[:, 0], lambda _, t: rows.action[:, t], rows.obs.shape[1] - 1)
        true, spread = seen[:, 1:], variance_of(seen)
        return ImaginedWindows(
            "the latents' variance",
            1,
            squared_error(own.latent, true, spread),
            squared_error(seen[:, :1].expand_as(true), true, spread),
            rows.reward[:, 1:],
            own.reward,
            rows.is_first[:, 1:].long().cumsum(1) == 0,
            rows.reward[:, 1:, None],
            own.reward[..., None],
            ("reward",),
        )

    def returns(self, latent: Tensor, actions: Tensor, gamma: float, generator: torch.Generator) -> Tensor:
        """Discounted rewards of sequences, and what follows them.  [N, Z], [N, K, H, A] -> [N, K]"""
        envs, count, horizon, _ = actions.shape
        total, weight = latent.new_zeros(envs * count), 1.0
        alive: Tensor | None = None
        here, reward = self.step_many(latent, actions[:, :, 0])
        for t in range(horizon):
            if t > 0:
                here, reward = self.step(here, actions[:, :, t].flatten(0, 1))
            total = total + weight * (reward if alive is None else reward * alive)
            weight *= gamma
            over = self.termination_prob(here)
            if over is not None:
                alive = (1.0 - over) if alive is None else alive * (1.0 - over)
        rest = self.value(here, generator)
        total = total + weight * (rest if alive is None else rest * alive)
        return total.view(envs, count)

    def policy_trajectories(
        self, latent: Tensor, count: int, horizon: int, generator: torch.Generator
    ) -> Tensor:
        """Sequences that the policy would take.  [N, Z] -> [N, P, H, A]"""
        envs = len(latent)
        here = latent.unsqueeze(1).expand(envs, count, -1).flatten(0, 1)
        taken = []
        for t in range(horizon):
            taken.append(self.sample_action(here, generator))
            if t + 1 < horizon:
                here, _ = self.step(here, taken[-1])
        return torch.stack(taken, 1).unflatten(0, (envs, count))


class SimNormModel(LatentModel):
    """TD-MPC2: a latent of simplices, rewards and values as two-hot numbers in symlog space, a Gaussian policy.

    Args:
        obs: Width of an observation, its shape, or its parts.
        action_dim: Width of an action.
        latent_dim: Width of the latent.
        simnorm_dim: Size of its groups.
        encoder_hidden_dims: Hidden sizes of the encoder.
        hidden_dim: Width of the two hidden layers of all other networks.
        num_critics: Value functions.
        num_bins: Of a two-hot number.
        dropout: In the first layer of the value functions.
        episodic: Learn when episodes end.
        encoder: Network that sees observations before the encoder's layers; null: convolutions for pictures alone.
    """

    bins: Tensor

    def __init__(
        self,
        obs: int | Shape,
        action_dim: int,
        latent_dim: int = 512,
        simnorm_dim: int = 8,
        encoder_hidden_dims: list[int] = [256],  # noqa: B006  (copied, never mutated)
        hidden_dim: int = 512,
        num_critics: int = 5,
        num_bins: int = 101,
        dropout: float = 0.01,
        episodic: bool = False,
        encoder: Network | None = None,
    ) -> None:
        super().__init__()
        check_groups(latent_dim, simnorm_dim)
        both, wide = latent_dim + action_dim, [hidden_dim, hidden_dim]
        self.action_dim, self.num_critics = action_dim, num_critics
        self.encoder = make_latent_encoder(
            encoder, layout_or_shape(obs), list(encoder_hidden_dims), latent_dim, simnorm_dim
        )
        self.dynamics = NormedMLP(both, wide, latent_dim, simnorm_dim)
        self.reward = NormedMLP(both, wide, num_bins, zero_init_last=True)
        self.policy = NormedMLP(latent_dim, wide, 2 * action_dim)
        self.q = NormedEnsemble(num_critics, both, wide, num_bins, dropout)
        self.terminated = NormedMLP(latent_dim, wide, 1) if episodic else None
        self.register_buffer("bins", two_hot_bins(num_bins, LIMIT, exponential=False))

    def encode(self, obs: Tensor) -> Tensor:
        return self.encoder(obs)

    def decode_value(self, logits: Tensor) -> Tensor:  # [..., bins] -> [...]
        return symexp(two_hot_mean(logits, self.bins))

    def two_hot_loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy to a target in its own units.  [..., bins], [...] -> [...]"""
        return two_hot_loss(logits, symlog(target).expand(logits.shape[:-1]), self.bins)

    def step(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat((latent, action), -1)
        return self.dynamics(both), self.decode_value(self.reward(both))

    def step_many(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return self.dynamics.forward_shared(latent, action), self.decode_value(
            self.reward.forward_shared(latent, action)
        )

    def gaussian(self, latent: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-std of the policy before squashing."""
        mean, raw = self.policy(latent).chunk(2, -1)
        return mean, LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (raw.tanh() + 1.0)

    def sample_action(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        mean, log_std = self.gaussian(latent)
        return torch.tanh(mean + log_std.exp() * standard_noise(mean.shape, generator, mean))

    def value(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        """The mean of two value functions drawn at random."""
        action = self.sample_action(latent, generator)
        which = torch.randperm(self.num_critics, generator=generator, device=generator.device)[:2].to(
            latent.device
        )
        return self.decode_value(self.q(torch.cat((latent, action), -1), which)).mean(0)

    def termination_prob(self, latent: Tensor) -> Tensor | None:
        return None if self.terminated is None else (self.terminated(latent)[..., 0] > 0.0).to(latent)


def gaussian_entropy_estimate(noise: Tensor, log_std: Tensor) -> Tensor:
    """TD-MPC2's entropy: minus the log-density before squashing, times the number of dimensions.  [..., A] -> [...]"""
    density = (-0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)
    return -density * noise.shape[-1]
