"""The scale of imagined returns, so that one entropy weight serves sparse and dense rewards."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from rl_lightning import distributed
from rl_lightning.errors import ConfigError


class PercentileNorm(nn.Module):
    """Divide by the range between two percentiles of the returns of all ranks, followed slowly (Dreamer v3).

    Args:
        low_quantile: The lower percentile, as a share.
        high_quantile: The upper percentile, as a share.
        ema_rate: Fraction of the way to the newest range at each update.
        min_scale: The scale never falls below this, so that sparse rewards are not blown up.
    """

    shares: Tensor
    quantiles: Tensor

    def __init__(
        self,
        low_quantile: float = 0.05,
        high_quantile: float = 0.95,
        ema_rate: float = 0.01,
        min_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0.0 <= low_quantile < high_quantile <= 1.0 or min_scale <= 0:
            raise ConfigError(
                f"PercentileNorm needs 0 <= low_quantile < high_quantile <= 1 and min_scale > 0, not {low_quantile}, "
                f"{high_quantile}, {min_scale}"
            )
        self.ema_rate, self.min_scale = ema_rate, min_scale
        self.register_buffer("shares", torch.tensor([low_quantile, high_quantile]), persistent=False)
        self.register_buffer("quantiles", torch.zeros(2))

    @torch.no_grad()
    def update(self, returns: Tensor) -> None:
        """Moves towards the percentiles of these returns; only training calls it."""
        everyones = torch.cat(distributed.gather(returns.detach().float().flatten()))
        self.quantiles.lerp_(torch.quantile(everyones, self.shares), self.ema_rate)

    def scale(self) -> Tensor:
        return (self.quantiles[1] - self.quantiles[0]).clamp(min=self.min_scale)


ReturnNormFactory = Callable[[], PercentileNorm]
