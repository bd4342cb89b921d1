"""Stretches of recorded episodes: some observations and the actions of a longer while, for policies that look ahead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.ranges import FractionBelowOne, PositiveFraction, PositiveInt
from rl_lightning.types import ActionWindows


class WindowData(OfflineData):
    """Random windows of one episode each. Beyond an episode's ends its first or last row is repeated.

    A window has `horizon` actions, and the observations of its first `n_obs_steps` steps. Windows begin up to
    `n_obs_steps` - 1 steps before an episode and end up to `n_action_steps` - 1 steps behind it.

    Args:
        dataset: Name (local/..., d4rl/..., minari/...) or path; see rl data list.
        env: Where the policy is evaluated; null: the env that the data set names, if any.
        n_obs_steps: Observations of a window.
        horizon: Actions of a window.
        n_action_steps: Actions that the policy will play before it plans anew.
        batch_size: Windows of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of the data that is kept for validation, the same for every stage of one seed.
        split: What is held out; windows need whole episodes.
        top_fraction: Fraction of the episodes that is learned from, those with the highest returns.
        max_episodes: Recorded episodes that are used at all, the first ones; null: all.
    """

    yields: ClassVar[type[Any]] = ActionWindows

    def __init__(
        self,
        dataset: DatasetLike,
        env: EnvLike | None = None,
        n_obs_steps: PositiveInt = 2,
        horizon: PositiveInt = 8,
        n_action_steps: PositiveInt = 4,
        batch_size: PositiveInt = 256,
        updates_per_block: PositiveInt = 50,
        val_fraction: FractionBelowOne = 0.0,
        split: Literal["episode"] = "episode",
        top_fraction: PositiveFraction = 1.0,
        max_episodes: PositiveInt | None = None,
    ) -> None:
        shares: dict[str, Any] = {"top_fraction": top_fraction, "max_episodes": max_episodes}
        super().__init__(dataset, env, batch_size, updates_per_block, val_fraction, split, **shares)
        if n_obs_steps - 1 + n_action_steps > horizon:
            least = f"n_obs_steps - 1 + n_action_steps = {n_obs_steps - 1 + n_action_steps}"
            raise ConfigError(f"data.horizon is {horizon}; it must hold {least} actions")
        self.n_obs_steps, self.horizon, self.n_action_steps = n_obs_steps, horizon, n_action_steps

    def open(self, stage: str) -> None:
        if self.draw is not None:
            return
        super().open(stage)
        wanted = {
            "n_obs_steps": self.n_obs_steps,
            "horizon": self.horizon,
            "n_action_steps": self.n_action_steps,
        }
        for key, value in wanted.items():
            if getattr(self.agent, key, value) != value:
                raise ConfigError(
                    f"data.{key} is {value} and model.{key} {getattr(self.agent, key)}; give both the same number"
                )
        self.starts, self.low, self.high = self.windows(self.dataset.episode, self.train_index)

    def windows(self, episode: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """First row of every window, which may lie outside its episode, and that episode's first and last row."""
        _, sizes = torch.unique_consecutive(episode[rows], return_counts=True)
        first = rows[torch.cat((torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)[:-1]))]
        early, late = self.n_obs_steps - 1, self.n_action_steps - 1
        counts = (sizes + early + late - self.horizon + 1).clamp(min=1)
        place = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        within = torch.arange(len(place)) - (counts.cumsum(0) - counts)[place]
        return first[place] - early + within, first[place], (first + sizes - 1)[place]

    def sample_batches(self, updates: int) -> Iterator[ActionWindows]:
        yield from self.unstack(self.sample_windows(updates))

    def sample_windows(self, updates: int) -> ActionWindows:
        assert self.draw is not None
        which = torch.randint(len(self.starts), (updates, self.batch_size), generator=self.draw)
        return self.window_rows(which)

    def window_rows(self, which: Tensor) -> ActionWindows:
        """The windows of an index of any shape.  [...] -> obs [..., T, *O], action [..., H, A]"""
        row = self.starts[which].unsqueeze(-1) + torch.arange(self.horizon)
        row = row.maximum(self.low[which].unsqueeze(-1)).minimum(self.high[which].unsqueeze(-1))
        return ActionWindows(self.gather(row[..., : self.n_obs_steps]).obs, self.gather(row).action)
