"""The scale of imagined returns, so that one entropy weight serves sparse and dense rewards."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_lightning import distributed
from rl_lightning.errors import ConfigError


class PercentileScale:
    """Divide by the range between two percentiles of the returns, followed slowly (Dreamer v3).

    Args:
        low: The lower percentile, as a share.
        high: The upper percentile, as a share.
        rate: Share of the way to the newest range at each update.
        floor: The scale never falls below this, so that sparse rewards are not blown up.
    """

    def __init__(self, low: float = 0.05, high: float = 0.95, rate: float = 0.01, floor: float = 1.0) -> None:
        if not 0.0 <= low < high <= 1.0 or floor <= 0:
            raise ConfigError(
                f"PercentileScale needs 0 <= low < high <= 1 and floor > 0, not {low}, {high}, {floor}"
            )
        self.low, self.high, self.rate, self.floor = low, high, rate, floor

    def build(self) -> ReturnScale:
        return ReturnScale(self)


class ReturnScale(nn.Module):
    """See PercentileScale. All ranks follow the returns of all."""

    range: Tensor

    def __init__(self, recipe: PercentileScale) -> None:
        super().__init__()
        self.rate, self.floor = recipe.rate, recipe.floor
        self.register_buffer("shares", torch.tensor([recipe.low, recipe.high]), persistent=False)
        self.register_buffer("range", torch.zeros(2))

    @torch.no_grad()
    def follow(self, returns: Tensor) -> None:
        """Moves towards the percentiles of these returns; only training calls it."""
        everyones = torch.cat(distributed.gather(returns.detach().float().flatten()))
        self.range.lerp_(torch.quantile(everyones, self.shares), self.rate)  # type: ignore[arg-type]

    def scale(self) -> Tensor:
        return (self.range[1] - self.range[0]).clamp(min=self.floor)
