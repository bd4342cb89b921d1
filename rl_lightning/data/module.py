"""The base of all DataModules: a sized stream of blocks, the clocks, and everything that must be saved with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from lightning.pytorch import LightningDataModule

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.schedule import RunConfig, RunSchedule
from rl_lightning.seeding import derive
from rl_lightning.types import Block, EnvSpec, EpisodeStats

EPOCH_BLOCKS = (
    1000  # blocks per Lightning epoch; an epoch means nothing to us, but a stream must have a length
)


class BlockStream:
    """Hands Lightning one block at a time. Sized, so that Lightning does not fetch ahead; all state is the data's."""

    def __init__(self, data: RLData) -> None:
        self.data = data

    def __len__(self) -> int:
        return EPOCH_BLOCKS

    def __iter__(self) -> Iterator[Block]:
        while True:
            yield self.data.next_block()


class RLData(LightningDataModule):
    """Base of the DataModules. A subclass sets `spec` in its constructor and defines `next_block()`."""

    spec: EnvSpec
    clock = "env_step"  # the public x-axis; "update" where there is no env
    on_policy = False  # True: blocks are Rollouts; False: blocks are Transitions

    def __init__(self) -> None:
        super().__init__()
        self.schedule = RunSchedule(clock=self.clock)
        self.seed = 0
        self.episodes: list[EpisodeStats] = []  # ended since the last time metrics were emitted

    def configure(self, run: RunConfig, seed: int) -> None:
        """Sets budgets and seed; called once, before `setup`."""
        self.schedule.run = run
        self.seed = seed

    @property
    def rank(self) -> int:
        return self.trainer.global_rank if self.trainer is not None else 0

    @property
    def world_size(self) -> int:
        return self.trainer.world_size if self.trainer is not None else 1

    @property
    def agent(self) -> Any:
        """The LightningModule that is being trained."""
        assert self.trainer is not None
        return self.trainer.lightning_module

    def derive(self, name: str) -> int:
        return derive(self.seed, name, self.rank)

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(self.derive(name))

    def next_block(self) -> Block:
        raise TypeError(f"{type(self).__name__} must define next_block()")

    def feedback(self, block: Block, priorities: torch.Tensor) -> None:
        """Takes what the update rule says about the rows it saw, e.g. how wrong it was about each."""

    def eval_envs(self, episodes: int) -> Any:
        """A vector of envs for evaluation, kept between calls; None where there is no env."""
        return None

    def render_env(self) -> Any:
        """A vector of one env that renders frames; refused where there is no env."""
        raise ConfigError(f"{type(self).__name__} has no environment to film")

    def train_dataloader(self) -> BlockStream:
        return BlockStream(self)

    def val_dataloader(self) -> list[int]:
        return [0]

    def test_dataloader(self) -> list[int]:
        return [0]

    def collect_metrics(self) -> dict[str, float]:
        """Means over the training episodes that ended since the last call."""
        episodes, self.episodes = self.episodes, []
        if not episodes:
            return {}
        metrics = {
            "collect/return": sum(e.episode_return for e in episodes) / len(episodes),
            "collect/length": sum(e.length for e in episodes) / len(episodes),
            "collect/episodes": float(len(episodes)),
        }
        for key in episodes[0].extra:
            metrics[f"collect/{key}"] = sum(e.extra[key] for e in episodes) / len(episodes)
        return metrics
