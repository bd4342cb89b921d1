"""A diffusion model as a density, by its variational bound over log-signal-to-noise ratios (Kingma et al. 2021).

With l the log ratio, a row x is seen as s = alpha x + sigma e, alpha^2 = sigmoid(l), sigma^2 = sigmoid(-l), and
-ln p(x) <= prior + reconstruction + 1/2 integral of E|e - e_hat|^2 dl. The network adds to the answer that is right for
a standard normal, whose integral is known: only the rest is estimated, at fixed levels with fixed noise and its mirror
image, so that a score is the same each time it is asked.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_lightning.models.density.density_model import LOG_2PI, DensityModel, check_positive
from rl_lightning.nn.init import check_sizes
from rl_lightning.nn.mlp import linear_stack
from rl_lightning.ranges import PositiveInt

WAVES = 8  # of the level, as the network sees it


def softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def sigmoid(value: float) -> float:
    return math.exp(-softplus(-value))


class DiffusionDensity(DensityModel):
    """Diffusion model whose score is its variational bound at fixed levels of noise.

    Predicts v = alpha e - sigma x, the part of the noise's error that a standard normal leaves open.

    Args:
        hidden_dims: Hidden sizes of the network.
        num_noise_levels: Levels of noise that a score is summed over; each costs two passes.
        logsnr_range: Least and greatest log ratio of signal to noise.
        whiten: Take linear dependence between columns out before the network; off, only their scales.
    """

    levels: Tensor
    probes: Tensor
    waves: Tensor

    def __init__(
        self,
        dim: int,
        /,
        hidden_dims: list[PositiveInt] = [256, 256],  # noqa: B006  (copied, never mutated)
        num_noise_levels: int = 16,
        logsnr_range: tuple[float, float] = (-6.0, 8.0),
        whiten: bool = True,
    ) -> None:
        check_positive(
            num_noise_levels=num_noise_levels, depth=len(hidden_dims), span=logsnr_range[1] - logsnr_range[0]
        )
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        super().__init__(dim, whiten=whiten)
        self.low, self.high = float(logsnr_range[0]), float(logsnr_range[1])
        stack = linear_stack(dim + 2 * WAVES, hidden_dims, "silu", False)
        self.net = nn.Sequential(*stack, nn.Linear(hidden_dims[-1], dim))
        nn.init.zeros_(self.net[-1].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.net[-1].bias)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(0)
        step = (self.high - self.low) / num_noise_levels
        self.register_buffer("levels", self.low + step * (torch.arange(num_noise_levels) + 0.5))
        self.register_buffer("probes", torch.randn(num_noise_levels, dim, generator=generator))
        self.register_buffer("waves", math.pi * 2.0 ** torch.arange(-1.0, WAVES / 2 - 1, 0.5))

    def predict(self, noisy: Tensor, level: Tensor) -> Tensor:
        """v of noisy rows [B, D] at levels [B, 1]."""
        place = (level - self.low) / (self.high - self.low) * self.waves
        return self.net(torch.cat((noisy, place.sin(), place.cos()), -1))

    def loss(self, x: Tensor) -> Tensor:
        z = self.prepare(x)
        share = (torch.arange(len(z), device=z.device) + torch.rand(len(z), device=z.device)) / len(z)
        level = (self.low + (self.high - self.low) * share)[:, None]
        alpha, sigma = level.sigmoid().sqrt(), (-level).sigmoid().sqrt()
        noise = torch.randn_like(z)
        gap = alpha * noise - sigma * z - self.predict(alpha * z + sigma * noise, level)
        weight = 0.5 * (self.high - self.low) * level.sigmoid()
        rest = self._gaussian(z.square().sum(-1)).mean()
        plain = (alpha * noise - sigma * z).square().sum(-1, keepdim=True)
        return self.log_scale() - rest + (weight * (gap.square().sum(-1, keepdim=True) - plain)).mean()

    def log_prob(self, z: Tensor) -> Tensor:
        gain = torch.zeros_like(z[:, 0])
        for level, probe in zip(self.levels, self.probes, strict=True):
            alpha, sigma = level.sigmoid().sqrt(), (-level).sigmoid().sqrt()
            for noise in (probe, -probe):
                v = alpha * noise - sigma * z
                prediction = self.predict(alpha * z + sigma * noise, level.expand(len(z), 1))
                gain += level.sigmoid() * (prediction * (2.0 * v - prediction)).sum(-1)
        step = (self.high - self.low) / len(self.levels)
        return self._gaussian(z.square().sum(-1)) + 0.25 * step * gain

    def _gaussian(self, square: Tensor) -> Tensor:
        """The bound of a network that says 0 everywhere, in closed form; `square` is |z|^2."""
        low, high, d = self.low, self.high, self.dim
        variance = sigmoid(-low)
        prior = 0.5 * (sigmoid(low) * square + d * (variance - 1.0 - math.log(variance)))
        reconstruction = 0.5 * d * (1.0 + LOG_2PI - high)
        share = sigmoid(high) - sigmoid(low)
        between = 0.5 * (d * (softplus(high) - softplus(low) - share) + square * share)
        return -(prior + reconstruction + between)
