"""A learned env: an ensemble of networks that predict the next observation and the reward, with their own doubt."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.nn.ensemble import EnsembleLinear
from rl_lightning.nn.init import check_sizes

CHUNK = 1024  # rows, over all members, whose hidden layers stay in a core's cache; on other devices there is no limit
TINY = 1e-12  # variance below which a column counts as constant

Layers = list[tuple[Tensor, Tensor]]


class ModelStep(NamedTuple):
    """One imagined step."""

    next_obs: Tensor  # [B, O]
    reward: Tensor  # [B]
    spread: Tensor | None = (
        None  # [B] the largest of all members, elites or not, as in MOPO's code; if it was asked for
    )


def gaussian_nll(mean: Tensor, log_var: Tensor, target: Tensor) -> Tensor:
    """Twice the negative log-likelihood without its constant, mean over rows and columns.  [E, B, D] -> [E]"""
    assert mean.shape == log_var.shape, (mean.shape, log_var.shape)
    return torch.addcmul(log_var, (mean - target).square(), (-log_var).exp()).mean((-2, -1))


class EnsembleDynamics(nn.Module):
    """Networks of one shape with batched weights; each predicts the change of the observation, and the reward.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        ensemble_size: Networks in all; 1 is a single model.
        num_elites: Networks, best on held-out rows first, that are used after training.
        hidden_dims: Width of each hidden layer (swish).
        probabilistic: Predict a variance, too, and draw from the Gaussian; off: the mean alone.
        standardize_targets: Learn changes and rewards in units of their own spread in the data.
    """

    input_mean: Tensor
    input_std: Tensor
    target_mean: Tensor
    target_std: Tensor
    fitted: Tensor
    elites: Tensor
    holdout: Tensor

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        ensemble_size: int = 7,
        num_elites: int = 5,
        hidden_dims: list[int] = [200, 200, 200, 200],  # noqa: B006  (copied, never mutated)
        probabilistic: bool = True,
        standardize_targets: bool = False,
    ) -> None:
        super().__init__()
        if not 1 <= num_elites <= ensemble_size:
            raise ConfigError(
                f"num_elites is {num_elites}; it must lie between 1 and ensemble_size ({ensemble_size})"
            )
        self.obs_dim, self.action_dim, self.ensemble_size = obs_dim, action_dim, ensemble_size
        self.hidden_dims, self.probabilistic = check_sizes("hidden_dims", hidden_dims), probabilistic
        self.standardize_targets = standardize_targets
        width = obs_dim + 1
        sizes = [obs_dim + action_dim, *hidden_dims, 2 * width if probabilistic else width]
        self.layers = nn.ModuleList(EnsembleLinear(ensemble_size, *pair) for pair in pairwise(sizes))
        for layer, fan_in in zip(self.layers, sizes[:-1], strict=True):
            nn.init.trunc_normal_(layer.weight, std=0.5 / math.sqrt(fan_in))  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if probabilistic:
            self.max_log_var = nn.Parameter(torch.full((width,), 0.5))
            self.min_log_var = nn.Parameter(torch.full((width,), -10.0))
        self.register_buffer("input_mean", torch.zeros(sizes[0]))
        self.register_buffer("input_std", torch.ones(sizes[0]))
        self.register_buffer("target_mean", torch.zeros(width))
        self.register_buffer("target_std", torch.ones(width))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))  # the four above are set
        self.register_buffer("elites", torch.arange(num_elites))
        self.register_buffer(
            "holdout", torch.full((ensemble_size,), math.inf)
        )  # error of each member's weights

    def init_args(self) -> dict[str, Any]:
        """What makes the same empty model again."""
        names = (
            "obs_dim",
            "action_dim",
            "ensemble_size",
            "hidden_dims",
            "probabilistic",
            "standardize_targets",
        )
        return {name: getattr(self, name) for name in names} | {"num_elites": len(self.elites)}

    @torch.no_grad()
    def fit_statistics(self, obs: Tensor, action: Tensor, reward: Tensor, next_obs: Tensor) -> None:
        """Sets the scale of inputs and, if wanted, of targets from rows [N, ...]; a constant column is only centred."""
        self.input_mean.copy_(torch.cat((_mean(obs), _mean(action))))
        self.input_std.copy_(torch.cat((_std(obs), _std(action))))
        if self.standardize_targets:
            change, reward = next_obs.double() - obs.double(), reward.unsqueeze(-1)
            self.target_mean.copy_(torch.cat((_mean(change), _mean(reward))))
            self.target_std.copy_(torch.cat((_std(change), _std(reward))))
        self.fitted.fill_(True)

    def inputs(self, obs: Tensor, action: Tensor) -> Tensor:  # [..., O], [..., A] -> [..., O+A]
        return torch.cat((obs, action), -1).sub_(self.input_mean).div_(self.input_std)

    def targets(self, obs: Tensor, reward: Tensor, next_obs: Tensor) -> Tensor:  # -> [..., O+1]
        change = torch.cat((next_obs - obs, reward.unsqueeze(-1)), -1)
        return change.sub_(self.target_mean).div_(self.target_std) if self.standardize_targets else change

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor | None]:
        """Mean and log-variance of the targets, of all members.  [E, B, I] or, the same for all, [B, I]"""
        if inputs.ndim == 2:
            inputs = inputs.expand(self.ensemble_size, -1, -1)
        return self._bounded(_run(inputs, self._weights()).float())

    def predict(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of (next_obs, reward), of all members.

        Rows [B, ...], the same for all, or [E, B, ...] -> [E, B, O+1] twice.
        """
        return self._predict(obs, action, self._weights())

    @torch.no_grad()
    def step(
        self, obs: Tensor, action: Tensor, generator: torch.Generator, spread: bool = False
    ) -> ModelStep:
        """One step of each row by an elite of its own, drawn at random.

        Draws from the generator, in this order and whatever `spread` is: the elite of each row [B], then standard
        noise [B, O+1] if the model is probabilistic. Without `spread` a row passes through its own elite alone.
        """
        shape = (len(obs),)
        choice = torch.randint(len(self.elites), shape, generator=generator, device=generator.device)
        choice = choice.to(obs.device)
        noise = standard_noise((len(obs), self.obs_dim + 1), generator, obs) if self.probabilistic else None
        if spread:
            means, stds = self.predict(obs, action)
            mean, std = (_choose(part, self.elites[choice]) for part in (means, stds))
            doubt = stds if self.probabilistic else means - means.mean(0)
            width = torch.linalg.vector_norm(doubt, dim=-1).amax(0)
        else:
            mean, std, width = *self._dispatch(obs, action, choice), None
        sample = mean if noise is None else torch.addcmul(mean, std, noise)
        return ModelStep(sample[:, :-1], sample[:, -1], width)

    @torch.no_grad()
    def sample_elites(self, obs: Tensor, action: Tensor, count: int) -> Tensor:
        """Draws of the next observation by every elite, from torch's own generator.  [B, O], [B, A] -> [S, K, B, O]"""
        mean, std = self._predict(obs, action, self._weights(self.elites))
        mean, std = mean[..., :-1], std[..., :-1]
        return torch.addcmul(mean, std, torch.randn(count, *mean.shape, device=mean.device))

    def _weights(self, which: Tensor | None = None) -> Layers:
        pairs: Any = [(layer.weight, layer.bias) for layer in self.layers]
        return pairs if which is None else [(w[which], b[which]) for w, b in pairs]

    def _predict(self, obs: Tensor, action: Tensor, weights: Layers) -> tuple[Tensor, Tensor]:
        inputs = self.inputs(obs, action).expand(len(weights[0][0]), -1, -1)
        return self._absolute(_run_in_cache(inputs, weights), obs)

    def _dispatch(self, obs: Tensor, action: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each row by its own elite: rows are laid out by elite, padded to one size."""
        weights, count = self._weights(self.elites), len(self.elites)
        order = choice.argsort()
        sizes = torch.bincount(choice, minlength=count)
        longest = int(sizes.max())
        shift = torch.arange(count, device=choice.device) * longest - (sizes.cumsum(0) - sizes)
        slot = torch.empty_like(order)
        slot[order] = torch.arange(len(order), device=order.device) + shift.repeat_interleave(sizes)
        inputs = self.inputs(obs, action)
        padded = inputs.new_zeros(count * longest, inputs.shape[-1]).index_copy_(0, slot, inputs)
        out = _run_in_cache(padded.view(count, longest, -1), weights)
        return self._absolute(out.flatten(0, 1).index_select(0, slot), obs)

    def _bounded(self, out: Tensor) -> tuple[Tensor, Tensor | None]:
        """Raw outputs to mean and log-variance, the latter softly kept between its learned bounds."""
        if not self.probabilistic:
            return out, None
        mean, log_var = out.chunk(2, -1)
        log_var = self.max_log_var - F.softplus(self.max_log_var - log_var)
        return mean, self.min_log_var + F.softplus(log_var - self.min_log_var)

    def _absolute(self, out: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Raw outputs to mean and standard deviation of next observation and reward, in their own units."""
        mean, log_var = self._bounded(out)
        if self.standardize_targets:
            mean = torch.addcmul(self.target_mean, mean, self.target_std)
        mean = mean + F.pad(obs, (0, 1))
        std = torch.zeros_like(mean) if log_var is None else (0.5 * log_var).exp()
        return mean, std * self.target_std if self.standardize_targets else std


def _run(inputs: Tensor, weights: Layers) -> Tensor:  # [E, B, I] -> [E, B, P]
    inplace = not torch.is_grad_enabled()
    for weight, bias in weights[:-1]:
        inputs = F.silu(torch.baddbmm(bias, inputs, weight), inplace=inplace)
    return torch.baddbmm(weights[-1][1], inputs, weights[-1][0])


def _run_in_cache(inputs: Tensor, weights: Layers) -> Tensor:
    """The same in pieces of rows, so that hidden layers need not go through main memory."""
    if torch.is_grad_enabled() or inputs.device.type != "cpu":
        return _run(inputs, weights).float()
    parts = inputs.split(max(CHUNK // len(inputs), 1), 1)
    return torch.cat([_run(part, weights) for part in parts], 1).float()


def _choose(parts: Tensor, choice: Tensor) -> Tensor:  # [K, B, D], [B] -> [B, D]
    return parts[choice, torch.arange(len(choice), device=choice.device)]


def _mean(rows: Tensor) -> Tensor:
    return rows.double().mean(0)


def _std(rows: Tensor) -> Tensor:
    var = rows.double().var(0, correction=0)
    return torch.where(var < TINY, 1.0, (var + 1e-8).sqrt())
