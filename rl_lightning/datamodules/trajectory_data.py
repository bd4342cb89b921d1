"""Stretches of recorded episodes with the return that still came, for policies that are told what to reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.functional.returns import returns_to_go
from rl_lightning.ranges import FractionBelowOne, PositiveFraction, PositiveInt
from rl_lightning.types import ReturnWindows


class TrajectoryData(OfflineData):
    """Random windows of one episode each, with returns-to-go. A window begins at any row; behind an episode's end it is
    filled up with rows that do not count.

    Args:
        dataset: Name (local/..., d4rl/..., minari/...) or path; see rl data list.
        env: Where the policy is evaluated; null: the env that the data set names, if any.
        context_length: Steps of a window; as in the model.
        batch_size: Windows of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of the data that is kept for validation, the same for every stage of one seed.
        split: What is held out; windows need whole episodes.
        top_fraction: Fraction of the episodes that is learned from, those with the highest returns.
        max_episodes: Recorded episodes that are used at all, the first ones; null: all.
    """

    yields: ClassVar[type[Any]] = ReturnWindows

    def __init__(
        self,
        dataset: DatasetLike,
        env: EnvLike | None = None,
        context_length: int = 20,
        batch_size: PositiveInt = 64,
        updates_per_block: PositiveInt = 50,
        val_fraction: FractionBelowOne = 0.0,
        split: Literal["episode"] = "episode",
        top_fraction: PositiveFraction = 1.0,
        max_episodes: PositiveInt | None = None,
    ) -> None:
        shares: dict[str, Any] = {"top_fraction": top_fraction, "max_episodes": max_episodes}
        super().__init__(dataset, env, batch_size, updates_per_block, val_fraction, split, **shares)
        if context_length < 1:
            raise ConfigError(f"data.context_length is {context_length}; it must be at least 1")
        self.context_length = context_length

    def open(self, stage: str) -> None:
        if self.draw is not None:
            return
        super().open(stage)
        theirs = getattr(self.agent, "context_length", self.context_length)
        if theirs != self.context_length:
            raise ConfigError(
                f"data.context_length is {self.context_length} and model.context_length {theirs}; give both the same "
                "number"
            )
        rows = self.dataset
        lengths = rows.lengths()
        first = lengths.cumsum(0) - lengths
        self.timestep = torch.arange(rows.rows) - first[rows.episode]
        self.last = (first + lengths - 1)[rows.episode]
        self.return_to_go = returns_to_go(rows.reward, rows.episode)

    def longest_episode(self) -> int:
        return int(self.dataset.lengths().max())

    def best_return(self) -> float:
        """The highest return of an episode that is learned from."""
        return float(self.dataset.returns()[self.dataset.episode[self.train_index]].max())

    def sample_batches(self, updates: int) -> Iterator[ReturnWindows]:
        yield from self.unstack(self.sample_trajectories(updates))

    def sample_trajectories(self, updates: int) -> ReturnWindows:
        assert self.draw is not None
        which = torch.randint(len(self.train_index), (updates, self.batch_size), generator=self.draw)
        return self.windows_from(self.train_index[which])

    def windows_from(self, first: Tensor) -> ReturnWindows:
        """The windows that begin at rows of any shape.  [...] -> obs [..., K, *O]"""
        row = first.unsqueeze(-1) + torch.arange(self.context_length)
        last = self.last[first].unsqueeze(-1)
        valid, row = row <= last, row.minimum(last)
        batch = self.gather(row)
        return ReturnWindows(batch.obs, batch.action, self.return_to_go[row], self.timestep[row], valid)
