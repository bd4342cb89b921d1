"""What every density model shares: standardised inputs, and one path to a score."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError

LOG_2PI = math.log(2.0 * math.pi)
LEAST_STD = 0.01  # of a direction when columns are made uncorrelated, in standard deviations
CONSTANT = 1e-6  # a column whose spread is below this fraction of its size is centred, not stretched


def standard_normal(z: Tensor) -> Tensor:
    """Log-density of rows [B, D] -> [B]."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


OWN_NAMES = ("shift", "scale", "turn", "log_scale", "prepare", "score", "loss", "dim", "noise_std")


class DensityModel(nn.Module):
    """A density of rows [B, D]. A subclass defines `log_prob` of prepared rows; all scores are in data units.

    Args:
        dim: Width of a row.
        noise_std: Standard deviation of the noise that is added to standardised rows in training.
        whiten: Take linear dependence between columns out as well.
    """

    trains = True
    chunk = 4096  # rows of one pass: its activations stay in the cache
    shift: Tensor
    scale: Tensor
    turn: Tensor | None

    def __init__(self, dim: int, noise_std: float = 0.0, whiten: bool = False) -> None:
        super().__init__()
        self.dim, self.noise_std = dim, noise_std
        self.register_buffer("shift", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))
        self.register_buffer("turn", torch.eye(dim) if whiten else None)

    def __setattr__(self, name: str, value: Any) -> None:
        """A subclass may not take the base's names for parts of its own: rows would be standardised with them."""
        if name in OWN_NAMES and isinstance(value, nn.Parameter | nn.Module):
            kind = type(self).__name__
            raise ConfigError(f"{kind}.{name}: the base of all densities uses this name; give it another")
        super().__setattr__(name, value)

    @torch.no_grad()
    def fit_statistics(self, x: Tensor) -> None:
        """Takes the mean and spread of rows [N, D] as the scale of all that follows."""
        std, mean = torch.std_mean(x.double(), 0, correction=0)
        steady = std <= CONSTANT * mean.abs().clamp_min(1.0)
        std = torch.where(steady, torch.ones_like(std), std)
        self.shift.copy_(mean)
        self.scale.copy_(std)
        if self.turn is not None:
            z = (x.double() - mean) / std
            least = max(self.noise_std, LEAST_STD) ** 2 * torch.eye(self.dim, dtype=z.dtype, device=z.device)
            lower = torch.linalg.cholesky(z.T @ z / len(z) + least)
            self.turn.copy_(torch.linalg.inv(lower))

    def prepare(self, x: Tensor, noise: float = 0.0) -> Tensor:
        """Standardised rows, with noise if it is wanted, their columns uncorrelated if the model asks for that."""
        z = (x - self.shift) / self.scale
        if noise:
            z = z + noise * torch.randn_like(z)
        return z if self.turn is None else z @ self.turn.T

    def log_scale(self) -> Tensor:
        """What `prepare` adds to a log-density: subtract it to come back to data units."""
        total = self.scale.log().sum()
        return total if self.turn is None else total - self.turn.diagonal().log().sum()

    def log_prob(self, z: Tensor) -> Tensor:
        """Log-density, or its proxy, of prepared rows [B, D] -> [B]; the same each time it is asked."""
        raise TypeError(f"{type(self).__name__} must define log_prob(z)")

    def loss(self, x: Tensor) -> Tensor:
        """What training lowers: the mean negative log-density, in data units."""
        return self.log_scale() - self.log_prob(self.prepare(x, self.noise_std)).mean()

    @torch.no_grad()
    def score(self, x: Tensor) -> Tensor:
        """Log-density of any number of rows [B, D] -> [B], in data units."""
        assert x.ndim == 2 and x.shape[1] == self.dim, (x.shape, self.dim)
        parts = [self.log_prob(self.prepare(part)) for part in x.split(self.chunk)]
        return (torch.cat(parts) if parts else x.new_empty(0)) - self.log_scale()


# Makes a density of rows of a width.
DensityFactory = Callable[[int], DensityModel]


def check_positive(**values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ConfigError(f"{name} must be above 0, not {value}")


def check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ConfigError(f"{name} must not be negative, not {value}")
