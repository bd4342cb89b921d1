"""The episodes of one evaluation, from all ranks, as one torchmetrics Metric."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from rl_lightning import distributed
from rl_lightning.types import EpisodeStats

FIXED = 4  # columns: return, length, seed, cut; behind them what the env reported


class EvaluationTable(Metric):
    """One row of numbers per episode; `compute` gives those of all ranks, in the order of the ranks."""

    full_state_update = False
    rows: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []
        self.add_state("rows", default=[], dist_reduce_fx="cat")

    def update(self, episodes: list[EpisodeStats]) -> None:
        """All episodes of this rank at once: every rank must know which columns there are."""
        own = {key for episode in episodes for key in episode.extra}
        self.keys = sorted(set().union(*distributed.gather_objects(own)))
        rows = [
            [
                e.episode_return,
                e.length,
                math.nan if e.seed is None else e.seed,
                e.cut,
                *(e.extra.get(key, math.nan) for key in self.keys),
            ]
            for e in episodes
        ]
        width = FIXED + len(self.keys)
        self.rows.append(torch.tensor(rows, dtype=torch.float64, device=self.device).reshape(-1, width))

    def compute(self) -> list[EpisodeStats]:
        episodes = []
        for total, length, seed, cut, *more in dim_zero_cat(self.rows).tolist():
            extra = {key: value for key, value in zip(self.keys, more, strict=True) if not math.isnan(value)}
            own = None if math.isnan(seed) else int(seed)
            episodes.append(EpisodeStats(total, int(length), own, extra, bool(cut)))
        return episodes
