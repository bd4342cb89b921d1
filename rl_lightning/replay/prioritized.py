"""Replay that draws a row in proportion to how wrong the last prediction for it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.replay.ring import Replay
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps, Transitions


class SumTree:
    """A binary tree of sums over `size` leaves. Parents are summed anew from their children, so no error builds up."""

    def __init__(self, size: int) -> None:
        self.leaves = 1 << max(1, (size - 1).bit_length())
        self.sums = np.zeros(2 * self.leaves)

    @property
    def total(self) -> float:
        return float(self.sums[1])

    def set(self, index: np.ndarray, value: np.ndarray) -> None:
        node = index + self.leaves
        self.sums[node] = value
        while node[0] > 1:
            node = np.unique(node >> 1)
            self.sums[node] = self.sums[2 * node] + self.sums[2 * node + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The leaf in which each cumulated mass falls."""
        node = np.ones(len(mass), np.int64)
        mass = mass.copy()
        while node[0] < self.leaves:
            left = self.sums[2 * node]
            right = (mass >= left) & (self.sums[2 * node + 1] > 0)
            mass -= np.where(right, left, 0.0)
            node = 2 * node + right
        return node - self.leaves


class PrioritizedReplay(Replay):
    """Prioritized replay with importance weights, under a sum tree. New rows get the largest priority seen.

    Args:
        capacity: Rows to keep, or "auto" for half of the free memory and at most a million.
        alpha: How strongly priorities count; 0 is uniform.
        beta: How fully the weights correct for it at the start of the run; it rises to 1 at the end.
        eps: Added to every priority, so that none is zero.
    """

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        /,
        capacity: int | str = 1_000_000,
        alpha: float = 0.6,
        beta: float = 0.4,
        eps: float = 1e-6,
    ) -> None:
        super().__init__(spec, num_envs, capacity)
        self.alpha, self.beta, self.eps = alpha, beta, eps
        self.tree = SumTree(self.capacity)
        self.largest = 1.0

    def add(self, steps: Steps) -> None:
        before: Any = self.store.cursor()
        self.store.add(steps)
        self.tree.set(*self.store.rows_since(before, self.largest**self.alpha))

    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions:
        strata = (torch.rand(count, generator=generator, dtype=torch.float64) + torch.arange(count)) / count
        index = torch.from_numpy(self.tree.find(strata.numpy() * self.tree.total))
        index = index[torch.randperm(count, generator=generator)]  # batches of a block must not be strata
        share = torch.from_numpy(self.tree.sums[index.numpy() + self.tree.leaves] / self.tree.total)
        beta = self.beta + (1.0 - self.beta) * self.progress
        weight = (share * len(self)).pow(-beta)
        rows = self.store.gather(index, n_step, gamma)
        return rows._replace(weight=(weight / weight.max()).float())

    def set_priorities(self, index: Tensor, priority: Tensor) -> None:
        value = priority.detach().abs().cpu().double().numpy().ravel() + self.eps
        flat = index.cpu().numpy().ravel()
        flat, first = np.unique(flat, return_index=True)
        live = self.tree.sums[flat + self.tree.leaves] > 0  # a row may have been overwritten meanwhile
        self.largest = max(self.largest, float(value.max()))
        if live.any():
            self.tree.set(flat[live], value[first][live] ** self.alpha)

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Rows as segments; priorities change after writing, so each checkpoint holds them whole."""
        leaves = torch.from_numpy(self.tree.sums[self.tree.leaves :][: self.capacity].copy())
        return {"store": self.store.save(store), "priorities": leaves, "largest": self.largest}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.store.load(state["store"], store)
        self.tree.set(np.arange(self.capacity), state["priorities"].numpy())
        self.largest = state["largest"]
