"""Draws rows that were foretold badly more often than others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

LEAST, MOST = 0.1, 20.0  # of the usual loss: no row is forgotten, none is drawn all the time
RATE = 0.01  # at which the usual loss follows that of new batches


class Surprises:
    """Chances of rows, in proportion to (loss / usual loss) ** power; rows that were not seen yet have the usual one.

    Losses are judged by what was usual when they were found: those of an early, ignorant world do not count for ever.

    Args:
        count: Rows in all.
        legal: Rows that may be drawn.
        power: How strongly losses count.
    """

    def __init__(self, count: int, legal: Tensor, power: float) -> None:
        self.power, self.usual, self.last = power, 0.0, int(legal.max())
        self.chance = torch.zeros(count)
        self.chance[legal] = 1.0

    def __call__(self, count: int, generator: torch.Generator) -> Tensor:
        """Rows, drawn with replacement.  [count]"""
        mass = self.chance.cumsum(0, dtype=torch.float64)
        drawn = torch.rand(count, generator=generator, dtype=torch.float64) * mass[-1]
        return torch.searchsorted(mass, drawn, right=True).clamp(max=self.last)  # a draw may round up to all

    def put(self, rows: Tensor, loss: Tensor) -> None:
        """Takes what rows were found to lose; of a row that was drawn twice, either."""
        loss = loss.detach().float().cpu()
        mean = float(loss.mean())
        self.usual = self.usual + RATE * (mean - self.usual) if self.usual else mean
        if self.usual > 0.0:
            self.chance[rows.cpu()] = (loss / self.usual).clamp(LEAST, MOST) ** self.power

    def state(self) -> dict[str, Any]:
        return {"chance": self.chance.clone(), "usual": self.usual}

    def load(self, state: dict[str, Any]) -> None:
        self.chance.copy_(state["chance"])
        self.usual = float(state["usual"])
