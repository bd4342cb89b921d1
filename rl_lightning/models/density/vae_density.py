"""Variational autoencoder (Kingma & Welling 2014) as a density, by importance samples (Burda et al. 2016)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_lightning.models.density.density_model import (
    LOG_2PI,
    DensityModel,
    check_not_negative,
    check_positive,
    standard_normal,
)
from rl_lightning.nn.init import check_sizes
from rl_lightning.nn.mlp import linear_stack
from rl_lightning.ranges import PositiveInt

LEAST_LOG_STD = -5.0  # of the decoder: a row that is copied exactly must not have an infinite density


class VAEDensity(DensityModel):
    """Variational autoencoder whose score is an importance-weighted bound on the log-density.

    Gaussian encoder and decoder, each with its own spread per column; the samples of a score are always the same.

    Args:
        latent_dim: Width of the code.
        hidden_dims: Hidden sizes of the encoder; the decoder has them in reverse.
        num_importance_samples: Codes per row that a score is the mean of.
        train_importance_samples: Codes per row in training; 1 is the plain bound.
        noise_std: Standard deviation of the noise added to standardised rows in training.
    """

    probes: Tensor

    def __init__(
        self,
        dim: int,
        /,
        latent_dim: PositiveInt = 10,
        hidden_dims: list[PositiveInt] = [256, 128],  # noqa: B006  (copied, never mutated)
        num_importance_samples: int = 16,
        train_importance_samples: int = 8,
        noise_std: float = 0.01,
    ) -> None:
        check_positive(
            latent_dim=latent_dim,
            num_importance_samples=num_importance_samples,
            train_importance_samples=train_importance_samples,
            depth=len(hidden_dims),
        )
        check_not_negative(noise_std=noise_std)
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        super().__init__(dim, noise_std)
        self.latent_dim, self.train_importance_samples = latent_dim, train_importance_samples
        self.encoder = nn.Sequential(
            *linear_stack(dim, hidden_dims, "silu", False), nn.Linear(hidden_dims[-1], 2 * latent_dim)
        )
        back = hidden_dims[::-1]
        self.decoder = nn.Sequential(
            *linear_stack(latent_dim, back, "silu", False), nn.Linear(back[-1], 2 * dim)
        )
        generator = torch.Generator().manual_seed(0)
        half = torch.randn((num_importance_samples + 1) // 2, latent_dim, generator=generator)
        self.register_buffer("probes", torch.cat((half, -half))[:num_importance_samples])

    def log_prob(self, z: Tensor) -> Tensor:
        mean, log_std = self._encode(z)
        bounds = [self._bound(z, mean, log_std, probe.expand_as(mean)) for probe in self.probes]
        return torch.logsumexp(torch.stack(bounds), 0) - math.log(len(bounds))

    def loss(self, x: Tensor) -> Tensor:
        z = self.prepare(x, self.noise_std)
        mean, log_std = self._encode(z)
        shape = (self.train_importance_samples, *mean.shape)
        bounds = self._bound(z, mean, log_std, torch.randn(shape, dtype=mean.dtype, device=mean.device))
        return self.log_scale() - (torch.logsumexp(bounds, 0) - math.log(len(bounds))).mean()

    def _encode(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.encoder(z).chunk(2, -1)
        return mean, log_std.clamp(-10.0, 2.0)

    def _bound(self, z: Tensor, mean: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """ln p(z | code) + ln p(code) - ln q(code | z) of codes drawn with this noise [..., B, L] -> [..., B]."""
        code = mean + log_std.exp() * noise
        centre, spread = self.decoder(code).chunk(2, -1)
        spread = spread.clamp(LEAST_LOG_STD, 2.0)
        error = (z - centre) * (-spread).exp()
        log_likelihood = -(0.5 * error.square() + spread + 0.5 * LOG_2PI).sum(-1)
        return log_likelihood + standard_normal(code) - standard_normal(noise) + log_std.sum(-1)
