"""Drawing what was foretold badly more often: rare things are learned from before the common ones are perfect."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.buffers.prioritized import SumTree

LEAST, MOST = 0.1, 10.0  # how much rarer and more often than the average a row can be drawn
RATE = 0.01  # of the running mean


class HardRows:
    """Rows of a log that never changes, drawn in proportion to (error / mean error of late) ** alpha.

    A row that was not judged yet counts as the average. No weights correct for it: the likeliest frame is wanted of
    rare situations, too, not the mean over all.

    Args:
        rows: That can be drawn.
        size: Of the log.
        alpha: How strongly errors count.
    """

    def __init__(self, rows: Tensor, size: int, alpha: float) -> None:
        self.alpha, self.mean, self.size = alpha, 0.0, size
        self.tree = SumTree(size)
        self.tree.set(rows.numpy(), torch.ones(len(rows), dtype=torch.float64).numpy())

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        mass = torch.rand(count, generator=generator, dtype=torch.float64) * self.tree.total
        return torch.from_numpy(self.tree.find(mass.numpy()))

    def judge(self, rows: Tensor, errors: Tensor) -> None:
        """Takes how wrong each of these rows was foretold."""
        found = errors.double().cpu()
        latest = float(found.mean())
        self.mean = latest if self.mean == 0.0 else self.mean + RATE * (latest - self.mean)
        share = (found / max(self.mean, 1e-12)).clamp(LEAST, MOST)
        self.tree.set(rows.cpu().numpy(), share.pow(self.alpha).numpy())

    def state(self) -> dict[str, Any]:
        leaves = self.tree.sums[self.tree.leaves : self.tree.leaves + self.size]
        return {"leaves": torch.from_numpy(leaves.copy()), "mean": self.mean}

    def load(self, state: dict[str, Any]) -> None:
        leaves = state["leaves"].numpy()
        rows = leaves.nonzero()[0]
        self.tree.set(rows, leaves[rows])
        self.mean = float(state["mean"])
