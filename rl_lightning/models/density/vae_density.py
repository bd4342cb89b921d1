"""Variational autoencoder (Kingma & Welling 2014) as a density, by importance samples (Burda et al. 2016)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_lightning.models.density.density_net import (
    LOG_2PI,
    DensityNet,
    DensityRecipe,
    check_not_negative,
    check_positive,
    standard_normal,
)
from rl_lightning.nn.init import check_sizes
from rl_lightning.nn.mlp import linear_stack

LEAST_LOG_STD = -5.0  # of the decoder: a row that is copied exactly must not have an infinite density


class VAEDensityNet(DensityNet):
    """Gaussian encoder and decoder, each with its own spread per column; the samples of a score are always the same."""

    probes: Tensor

    def __init__(
        self, dim: int, latent: int, hidden: list[int], samples: int, train_samples: int, noise: float
    ) -> None:
        super().__init__(dim, noise)
        self.latent, self.train_samples = latent, train_samples
        self.encoder = nn.Sequential(
            *linear_stack(dim, hidden, "silu", False), nn.Linear(hidden[-1], 2 * latent)
        )
        back = hidden[::-1]
        self.decoder = nn.Sequential(*linear_stack(latent, back, "silu", False), nn.Linear(back[-1], 2 * dim))
        generator = torch.Generator().manual_seed(0)
        half = torch.randn((samples + 1) // 2, latent, generator=generator)
        self.register_buffer("probes", torch.cat((half, -half))[:samples])

    def log_prob(self, z: Tensor) -> Tensor:
        mean, log_std = self._encode(z)
        bounds = [self._bound(z, mean, log_std, probe.expand_as(mean)) for probe in self.probes]
        return torch.logsumexp(torch.stack(bounds), 0) - math.log(len(bounds))

    def loss(self, x: Tensor) -> Tensor:
        z = self.prepare(x, self.noise)
        mean, log_std = self._encode(z)
        shape = (self.train_samples, *mean.shape)
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
        given = -(0.5 * error.square() + spread + 0.5 * LOG_2PI).sum(-1)
        return given + standard_normal(code) - standard_normal(noise) + log_std.sum(-1)


class VAEDensity(DensityRecipe):
    """Variational autoencoder whose score is an importance-weighted bound on the log-density.

    Args:
        latent: Width of the code.
        hidden: Hidden sizes of the encoder; the decoder has them in reverse.
        samples: Codes per row that a score is the mean of.
        train_samples: Codes per row in training; 1 is the plain bound.
        noise: Standard deviation of the noise added to standardised rows in training.
    """

    def __init__(
        self,
        latent: int = 10,
        hidden: list[int] = [256, 128],  # noqa: B006  (copied, never mutated)
        samples: int = 16,
        train_samples: int = 8,
        noise: float = 0.01,
    ) -> None:
        check_positive(latent=latent, samples=samples, train_samples=train_samples, depth=len(hidden))
        check_not_negative(noise=noise)
        self.latent, self.hidden = latent, check_sizes("hidden", hidden)
        self.samples, self.train_samples, self.noise = samples, train_samples, noise

    def build(self, dim: int) -> VAEDensityNet:
        return VAEDensityNet(dim, self.latent, self.hidden, self.samples, self.train_samples, self.noise)
