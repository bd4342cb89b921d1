"""Frames that are collected once and learned from again and again: the data of worlds and of their reward heads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from rl_lightning.clock.phases import Phase
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.all_frames import AllFrames
from rl_lightning.datamodules.bases.env_data import EnvData
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.envs.make import probe_spec
from rl_lightning.envs.own_envs import EnvLike, as_env_config
from rl_lightning.errors import ConfigError, DataError, ResumeError
from rl_lightning.functional.frame_losses import rare_colors
from rl_lightning.functional.reward_classes import CLASSES, reward_label
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.frames.frame_world import frame_shape
from rl_lightning.ranges import Fraction, FractionBelowOne, PositiveFraction, PositiveInt
from rl_lightning.replay.frames.frame_artifacts import check_spec, read_frames_meta
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.reward_samplers import GroupSampler, MBARCSampler, RewardSampler
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import FrameWindow

PALETTE = 256  # an index is a byte


def num_collections(artifact: Artifact | None) -> int:
    """How many collections an artifact holds; tells one cycle's random numbers from the next one's."""
    return 0 if artifact is None else len(read_frames_meta(artifact)["parts"])


class FrameCollectionData(EnvData):
    """Plays with the agent as it is and keeps every frame; nothing is learned. The artifact holds all frames so far.

    Args:
        env: The environment and all that is wrapped around it.
        frames_from: Artifact of the collection before this one; null: this is the first.
        num_envs: Envs of one process.
        rollout_steps: Steps of each env between two looks at the clock.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
    """

    def __init__(
        self,
        env: EnvLike,
        frames_from: Artifact | None = None,
        num_envs: PositiveInt = 1,
        rollout_steps: PositiveInt = 64,
        vectorization: str = "sync",
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        frame_shape(self.spec)
        self.previous, self.rollout_steps = frames_from, rollout_steps
        self.log: FrameLog | None = None

    def derive(self, name: str) -> int:
        return super().derive(f"{name}/{num_collections(self.previous)}")

    def begin_anew(self) -> None:
        super().begin_anew()
        self.log = None

    def open(self, stage: str) -> None:
        super().open(stage)
        if stage == "fit" and self.log is None:
            if self.previous is not None:
                check_spec(read_frames_meta(self.previous), self.spec)
            steps = self.clock.run.env_steps or 0
            self.log = FrameLog(self.spec, steps // self.spec.action_repeat // self.world_size)

    def batches(self) -> Iterator[Any]:
        assert self.log is not None
        self.log.add(self.collect(self.agent.act_fn(), self.rollout_steps))
        yield from ()

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        return self.rollout_steps * self.env_steps_per_vector_step, 0

    def forecast_collect(self, phase: Phase) -> int:
        return (phase.collect_steps or self.rollout_steps) * self.env_steps_per_vector_step

    def default_collect_steps(self) -> int:
        return self.rollout_steps

    def collect_in(self, phase: Phase, steps: int) -> None:
        assert self.log is not None
        self.log.add(self.collect(self.actor(phase), steps, phase.deterministic_policy))

    def save(self, store: SegmentStore) -> dict[str, Any]:
        assert self.log is not None
        spec = [list(part) if isinstance(part, tuple) else part for part in self.spec]
        own = {"log": self.log.save(store.part("frames")), "previous": self.previous, "spec": spec}
        return super().save(store) | {"frames": own}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        assert self.log is not None
        self.log.load(state["frames"]["log"], store.part("frames"))
        for env in self.restarted:
            self.log.end_episode(env)

    def collect_metrics(self) -> dict[str, float]:
        rows = 0 if self.log is None else len(self.log)
        return super().collect_metrics() | {"collect/buffer_size": float(rows)}


class FrameData(RLData):
    """Base of the data of a world and of its reward head: all frames so far, some of them held out.

    Args:
        env: The environment that the frames are of; nothing is played here.
        frames_from: Artifact of the newest collection; null: what is recorded alone.
        batch_size: Windows, or steps, of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of every collection, at its end, that no update sees.
        dataset: Recorded episodes (a folder of films, a data set of pictures) to learn from, before what was collected
            where there is both; null: none.
    """

    yields = FrameWindow
    clock_name = "update"

    def __init__(
        self,
        env: EnvLike,
        frames_from: Artifact | None,
        batch_size: PositiveInt,
        updates_per_block: PositiveInt,
        val_fraction: FractionBelowOne,
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__()
        self.env = as_env_config(env)
        self.batch_size, self.updates_per_block, self.val_fraction = (
            batch_size,
            updates_per_block,
            val_fraction,
        )
        self.spec = probe_spec(self.env)
        self.source = AllFrames(self.env, self.spec, frames_from, dataset)
        self._log: FrameLog | None = None
        self.draw: torch.Generator | None = None

    def derive(self, name: str) -> int:
        return super().derive(f"{name}/{num_collections(self.source.artifact)}")

    @property
    def log(self) -> FrameLog:
        """All frames, read when they are first asked for."""
        if self._log is None:
            self._log = self.source.read("a world of frames")
        return self._log

    @property
    def gamma(self) -> float:
        return float(getattr(self.agent, "gamma", 0.99))

    def begin_anew(self) -> None:
        super().begin_anew()
        self.draw = None

    def open(self, stage: str) -> None:
        if self.draw is None:
            self.draw = self.generator("replay")
            self.held = self._val_split()
            self.prepare()

    def prepare(self) -> None:
        """What a subclass works out once, before the first batch."""

    def _val_split(self) -> Tensor:
        """The last rows of every collection.  [R] bool"""
        held = torch.zeros(len(self.log), dtype=torch.bool)
        bounds = [*self.log.parts, len(self.log)]
        for start, end in pairwise(bounds):
            held[end - int(self.val_fraction * (end - start)) : end] = True
        return held

    def sample_batches(self, updates: int) -> Iterator[FrameWindow]:
        yield from self.unstack(self.sample(updates))

    def rows(self, count: int) -> Tensor:
        """Rows that `count` training windows begin at."""
        raise TypeError(f"{type(self).__name__} must define rows(count)")

    length = 1

    def sample(self, updates: int) -> FrameWindow:
        """One gather for the whole block, as [U, B, ...]."""
        window = self.gather(self.rows(updates * self.batch_size), self.length)
        return FrameWindow(*(field.unflatten(0, (updates, self.batch_size)) for field in window))

    def gather(self, rows: Tensor, length: int, past: int | None = None) -> FrameWindow:
        before = int(getattr(self.agent, "context_steps", 0)) if past is None else past
        return self.log.windows(rows, length, self.gamma, before)

    def steps(self, held: bool) -> Tensor:
        """Rows of steps whose next frame is known, held out or not; without any held out, all of them."""
        complete = self.log.walk(0.99).run > 0
        return (complete & (self.held == held if self.held.any() else True)).nonzero()[:, 0]

    def val_windows(self, count: int, length: int, past: int = 0, strict: bool = True) -> FrameWindow | None:
        """Held-out windows, the same at every call; None where none is that long and `strict` does not mind."""
        rows = self.steps(held=True)
        rows = rows[self.log.walk(0.99).run[rows] >= length]
        if not len(rows):
            if not strict:
                return None
            raise DataError(
                f"{self.source}: no held-out episode has {length} steps in a row; raise data.val_fraction"
            )
        own = torch.Generator().manual_seed(self.derive("holdout"))
        chosen = rows[torch.randperm(len(rows), generator=own)[:count]]
        return self.gather(chosen.sort().values, length, past)

    def val_reward_steps(self, count: int, past: int = 0) -> FrameWindow:
        """Held-out steps: all that pay, and as many others as `count` has room for."""
        rows = self.steps(held=True)
        rewarded = self.log.tensor("reward")[rows] != 0
        own = torch.Generator().manual_seed(self.derive("holdout"))
        others = rows[~rewarded]
        room = max(1, count - int(rewarded.sum()))
        others = others[torch.randperm(len(others), generator=own)[:room]]
        return self.gather(torch.cat([rows[rewarded], others]).sort().values, 1, past)

    def reward_counts(self) -> Tensor:
        """Training steps of each class.  [3]"""
        label = reward_label(self.log.tensor("reward")[self.steps(held=False)])
        return torch.bincount(label, minlength=CLASSES)

    def color_counts(self, colors: int) -> Tensor:
        """Pixels of each of the palette's colours, in all frames, held out or not.  [K]"""
        return self.log.color_counts(colors)

    def collect_metrics(self) -> dict[str, float]:
        return super().collect_metrics() | {"collect/buffer_size": float(len(self.log))}

    def save(self, store: SegmentStore) -> dict[str, Any]:
        assert self.draw is not None
        return super().save(store) | {"draw": self.draw.get_state(), "rows": len(self.log)}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        assert self.draw is not None
        if state["rows"] != len(self.log):
            raise ResumeError(
                f"{self.source} has {len(self.log)} frames, this run began with {state['rows']}: an exact resume "
                "needs the same"
            )
        self.draw.set_state(state["draw"])


class FrameWindowData(FrameData):
    """Windows of consecutive frames, none of which leaves its episode or its collection: what a world learns from.

    Args:
        env: The environment that the frames are of; nothing is played here.
        frames_from: Artifact of the newest collection; null: what is recorded alone.
        sequence_length: Steps of a window.
        batch_size: Windows of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of every collection, at its end, that no update sees.
        event_fraction: Fraction of the windows that is drawn from those in which a thing of a rare colour changes
            its course (a ball off a wall), beside what chance brings: what happens seldom is seen again and again.
            Palettes only.
        rare_pixel_threshold: Fraction of all pixels below which a colour is rare.
        dataset: Recorded episodes (a folder of films, a data set of pictures) to learn from, before what was collected
            where there is both; null: none.
    """

    def __init__(
        self,
        env: EnvLike,
        frames_from: Artifact | None = None,
        sequence_length: PositiveInt = 50,
        batch_size: PositiveInt = 4,
        updates_per_block: PositiveInt = 1,
        val_fraction: FractionBelowOne = 0.05,
        event_fraction: Fraction = 0.0,
        rare_pixel_threshold: PositiveFraction = 0.001,
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env, frames_from, batch_size, updates_per_block, val_fraction, dataset)
        if event_fraction and frame_shape(self.spec)[0] > 1:
            raise ConfigError(
                "data.event_fraction knows colours by their index; with frames in RGB leave it at 0"
            )
        self.length, self.event_fraction, self.rare_pixel_threshold = (
            sequence_length,
            event_fraction,
            rare_pixel_threshold,
        )

    def prepare(self) -> None:
        starts = self.log.starts(self.length)
        own = starts[~self.held[starts] & ~self.held[self._last(starts)]]
        if not len(own):
            raise DataError(
                f"{self.source}: every window of {self.length} steps touches held-out frames; lower data.val_fraction"
            )
        self.begin = own
        self.turns = own[self._event_windows(own)] if self.event_fraction else own[:0]

    def _event_windows(self, rows: Tensor) -> Tensor:
        """Whether something turns in the windows that begin at these rows.  [N] bool"""
        rare = rare_colors(self.color_counts(PALETTE), self.rare_pixel_threshold)
        turns, after = self.log.direction_changes(rare), self.log.walk(0.99).after
        has_event = torch.zeros(len(rows), dtype=torch.bool)
        for _ in range(self.length):
            has_event, rows = has_event | turns[rows], after[rows]
        if not has_event.any():
            raise DataError(
                f"{self.source}: no colour of less than {self.rare_pixel_threshold:.2g} of all "
                "pixels changes its course; raise "
                "data.rare_pixel_threshold, or set data.event_fraction 0"
            )
        return has_event

    def _last(self, rows: Tensor) -> Tensor:
        """The last row of each window."""
        after = self.log.walk(0.99).after
        for _ in range(self.length):
            rows = after[rows]
        return rows

    def rows(self, count: int) -> Tensor:
        rows = self.begin[torch.randint(len(self.begin), (count,), generator=self.draw)]
        if not self.event_fraction:
            return rows
        turns = self.turns[torch.randint(len(self.turns), (count,), generator=self.draw)]
        return torch.where(torch.rand(count, generator=self.draw) < self.event_fraction, turns, rows)


class RewardStepData(FrameData):
    """Single steps, chosen by a strategy against the rarity of rewards: what a reward head learns from.

    Args:
        env: The environment that the frames are of; nothing is played here.
        frames_from: Artifact of the newest collection; null: what is recorded alone.
        reward_sampler: The strategy; null: MBARC's.
        batch_size: Steps of one update.
        updates_per_block: Updates made of one gather.
        val_fraction: Fraction of every collection, at its end, that no update sees.
        dataset: Recorded episodes (a folder of films, a data set of pictures) to learn from, before what was collected
            where there is both; null: none.
    """

    def __init__(
        self,
        env: EnvLike,
        frames_from: Artifact | None = None,
        reward_sampler: RewardSampler | None = None,
        batch_size: PositiveInt = 32,
        updates_per_block: PositiveInt = 1,
        val_fraction: FractionBelowOne = 0.05,
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env, frames_from, batch_size, updates_per_block, val_fraction, dataset)
        self.reward_sampler = reward_sampler or MBARCSampler()

    def prepare(self) -> None:
        rows = self.steps(held=False)
        earlier, later = self.log.neighbors()
        reward = self.log.tensor("reward")[rows]
        self.chosen = GroupSampler(self.reward_sampler, rows, reward, earlier[rows], later[rows])

    def rows(self, count: int) -> Tensor:
        assert self.draw is not None
        return self.chosen(count, self.clock.progress, self.draw)
