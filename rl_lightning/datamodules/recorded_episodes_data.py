"""Episodes that an earlier stage recorded, or that a data set holds, in random windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from rl_lightning.datamodules.bases.eval_env_data import EvalEnvData
from rl_lightning.datasets.in_memory import IN_MEMORY, DatasetLike
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.ranges import FractionBelowOne, PositiveInt
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.episode_splitter import load_recording
from rl_lightning.seeding import derive
from rl_lightning.types import Sequences

MOST_HELD = 256  # windows that an assessment looks at


class RecordedEpisodesData(EvalEnvData):
    """Random windows of recorded episodes; one that runs into the next episode tells so by `is_first`.

    Args:
        env: Where they were recorded.
        recording: Artifact of the stage that recorded; null: the data set's.
        batch_size: Windows of one update.
        sequence_length: Rows of a window; 1 gives single frames.
        updates_per_block: Updates of one block.
        val_fraction: Fraction of the episodes that no update sees, the same for every stage of one seed.
        dataset: Recorded episodes (a folder of films, a data set) in place of a stage's; null: none.
    """

    yields = Sequences
    clock_name = "update"

    def __init__(
        self,
        env: EnvLike,
        recording: Artifact | None = None,
        batch_size: PositiveInt = 64,
        sequence_length: PositiveInt = 1,
        updates_per_block: PositiveInt = 50,
        val_fraction: FractionBelowOne = 0.1,
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env)
        self.recording, self.dataset_given = recording, dataset
        self.source = recording if dataset is None else dataset if isinstance(dataset, str) else IN_MEMORY
        self.batch_size, self.sequence_length = batch_size, sequence_length
        self.updates_per_block, self.val_fraction = updates_per_block, val_fraction
        self.draw: torch.Generator | None = None

    def begin_anew(self) -> None:
        super().begin_anew()
        self.draw = None

    def open(self, stage: str) -> None:
        if self.draw is not None:
            return
        rows = load_recording(self.recording, self.dataset_given, self.env, self.spec)
        self.rows = rows
        known = (tuple(rows.obs_shape), tuple(rows.action_shape))
        if known != (tuple(self.spec.obs_shape), tuple(self.spec.action_shape)):
            raise ConfigError(
                f"{self.source}: frames {known[0]} and actions {known[1]} were recorded; {self.spec.env_id} has "
                f"{self.spec.obs_shape} and {self.spec.action_shape}"
            )
        self.draw = self.generator("replay")
        self.train_starts, self.held_starts = self._split()

    def _split(self) -> tuple[Tensor, Tensor]:
        """First rows of the windows to train on, and of those held out: the beginnings of whole episodes."""
        count, first = len(self.rows), self.rows.is_first
        episode = first.long().cumsum(0) - 1
        names = int(first.sum())
        order = torch.randperm(names, generator=torch.Generator().manual_seed(derive(self.seed, "holdout")))
        held = torch.zeros(names, dtype=torch.bool)
        held[order[: max(1, round(self.val_fraction * names))]] = self.val_fraction > 0.0 and names > 1
        fits = torch.arange(count) + self.sequence_length <= count
        if self.sequence_length > 1:  # a window that begins with an episode's last row shows nothing
            fits[:-1] &= ~first[1:]
        train, aside = (fits & ~held[episode]).nonzero()[:, 0], (fits & held[episode]).nonzero()[:, 0]
        if not len(train):
            raise ConfigError(
                f"{self.source} has {count} rows of {names} episodes: no window of {self.sequence_length} fits. "
                f"Record more, or use a smaller --data.sequence_length"
            )
        return train, aside if len(aside) else train

    def translate(self, encode: Callable[[Tensor], Tensor]) -> None:
        """Replaces every observation by what `encode` makes of it, once: windows are then of that."""
        if not self.rows.obs.is_floating_point():  # codes stay as they are
            self.rows.obs = encode(self.rows.obs)

    def sample_batches(self, updates: int) -> Iterator[Sequences]:
        for _ in range(updates):
            yield self.next_batch()
            if self.clock.at_mark:
                return

    def next_batch(self) -> Sequences:
        assert self.draw is not None
        place = torch.randint(len(self.train_starts), (self.batch_size,), generator=self.draw)
        return self.rows.windows(self.train_starts[place], self.sequence_length)

    def val_windows(self) -> Sequences:
        """Windows that no update sees (with `holdout: 0` some that updates do see), spread over all of them."""
        pick = torch.linspace(0, len(self.held_starts) - 1, min(MOST_HELD, len(self.held_starts))).long()
        return self.rows.windows(self.held_starts[pick], self.sequence_length)

    def collect_metrics(self) -> dict[str, float]:
        return super().collect_metrics() | {"collect/buffer_size": float(len(self.rows))}

    def save(self, store: SegmentStore) -> dict[str, Any]:
        assert self.draw is not None
        return super().save(store) | {"draw": self.draw.get_state()}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        assert self.draw is not None
        self.draw.set_state(state["draw"])
