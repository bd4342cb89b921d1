"""Which of several candidate actions is played, by what critics think of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError


class CandidateFilter(ABC):
    """Chooses one of K candidates by E critics' values.

    Args:
        reduction: What stands for the critics: their mean, the lowest, or the first one alone.
        pessimism: Standard deviations between critics that are taken off their mean.
    """

    def __init__(self, reduction: Literal["mean", "min", "first"] = "mean", pessimism: float = 0.0) -> None:
        if reduction not in ("mean", "min", "first"):
            raise ConfigError(f"filter: reduction is '{reduction}'; choose mean, min or first")
        if pessimism and reduction != "mean":
            raise ConfigError(
                f"filter: pessimism is taken off a mean; with reduction {reduction} leave it at 0"
            )
        self.reduction, self.pessimism = reduction, pessimism

    def aggregate_q(self, q: Tensor) -> Tensor:  # [E, B, K] -> [B, K]
        if self.reduction == "min":
            return q.amin(0)
        if self.reduction == "first":
            return q[0]
        return q.mean(0) - self.pessimism * q.std(0, correction=0) if self.pessimism else q.mean(0)

    @abstractmethod
    def choose(self, q: Tensor, generator: torch.Generator) -> Tensor:
        """[E, B, K] -> [B]"""


class MaxFilter(CandidateFilter):
    """Takes the best candidate.

    Args:
        reduction: What stands for the critics: their mean, the lowest, or the first one alone.
        pessimism: Standard deviations between critics that are taken off their mean.
    """

    def choose(self, q: Tensor, generator: torch.Generator) -> Tensor:
        return self.aggregate_q(q).argmax(-1)


class SoftmaxFilter(CandidateFilter):
    """Draws a candidate, the more likely the better it is.

    Args:
        temperature: Difference in value that makes a candidate e times as likely; towards 0 the best is taken.
        reduction: What stands for the critics: their mean, the lowest, or the first one alone.
        pessimism: Standard deviations between critics that are taken off their mean.
    """

    def __init__(
        self,
        temperature: float = 1.0,
        reduction: Literal["mean", "min", "first"] = "first",
        pessimism: float = 0.0,
    ) -> None:
        super().__init__(reduction, pessimism)
        if temperature <= 0.0:
            raise ConfigError(f"SoftmaxFilter: temperature is {temperature}; it must be above 0")
        self.temperature = temperature

    def choose(self, q: Tensor, generator: torch.Generator) -> Tensor:
        chances = (self.aggregate_q(q).double() / self.temperature).softmax(-1)
        draws = torch.rand(len(chances), 1, generator=generator, dtype=torch.float64).to(chances.device)
        return (chances.cumsum(-1) < draws).sum(-1).clamp(max=chances.shape[-1] - 1)
