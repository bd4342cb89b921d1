"""Experience that is kept and replayed in windows: the data of models that remember (Dreamer, PlaNet, TD-MPC)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning import distributed
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.clock.phases import Phase
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.replay_data import ReplayData
from rl_lightning.datasets.in_memory import DatasetLike, OfflineSource, look_at_all
from rl_lightning.envs.make import make_envs
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.rssm.open_loop import (
    STEPS,
    OpenLoopRollout,
    open_loop_report,
    open_loop_rollout_latent,
)
from rl_lightning.models.rssm.world_model import LatentWorld
from rl_lightning.ranges import Fraction, NonNegativeInt, PositiveFloat, PositiveInt
from rl_lightning.replay.recorded_sequences import check_recorded, fill_with_episodes, read_recorded
from rl_lightning.replay.sequence import SequenceReplay, SequenceReplayFactory
from rl_lightning.rollout.collect import ActFn, Collector
from rl_lightning.types import Carry, Sequences

FEW = 8  # envs and rows that an examination begins with
MOST_COLLECTED = 1000  # vector steps of one block that only collects
PRETRAINED = 100  # updates of pretraining in one block
RECORDED = "dataset"  # the buffer of the data set, where it has one of its own; of several the first one's


class SequenceData(ReplayData[SequenceReplay]):
    """Turns of collecting and replaying windows: `train_every` env steps, then the updates that `train_ratio` asks for.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        batch_size: Windows of one update.
        sequence_length: Rows of a window that are learned from.
        burn_in: Rows before them that only warm the recurrent state up.
        buffer: Where rows are kept, and how windows are drawn.
        learning_starts: Env steps with random actions before the first update.
        pretrain: Updates made at once when the prefill is there.
        train_every: Env steps between updates (rounded up to whole steps of the vector).
        train_ratio: Rows replayed per step of an agent: updates per step times batch_size times length.
        store_latents: Keep the agent's recurrent state with every row, refresh it in training, begin windows from it.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
        dataset: Recorded episodes to learn from at once, instead of random steps; null: none. Rows that are played
            follow them in the buffer. In Python also arrays in memory, as OfflineData takes them. Several data sets,
            each with its weight in what is drawn of them: {local/a: 2, local/b: 1}.
        replay_from: Run whose replay is the data set, as its last checkpoint holds it: RUN, RUN/step-20000 or a path;
            null: none.
        dataset_fraction: Fraction of each batch that is drawn from the data set, which then has a buffer of its own;
            null: recorded and played windows are drawn alike.
    """

    yields = Sequences

    def __init__(
        self,
        env: EnvLike,
        num_envs: PositiveInt = 1,
        batch_size: PositiveInt = 16,
        sequence_length: PositiveInt = 64,
        burn_in: NonNegativeInt = 0,
        buffer: SequenceReplayFactory = SequenceReplay,
        learning_starts: NonNegativeInt = 1000,
        pretrain: NonNegativeInt = 0,
        train_every: PositiveInt = 1,
        train_ratio: PositiveFloat = 512.0,
        store_latents: bool = False,
        vectorization: str = "sync",
        dataset: DatasetLike | None = None,
        dataset_fraction: Fraction | None = None,
        replay_from: Artifact | None = None,
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        self.recorded = look_at_all(dataset, replay_from)
        if not self.recorded and dataset_fraction is not None:
            raise ConfigError("data.dataset_fraction is of data.dataset, which is not given")
        for source, _ in self.recorded:
            check_recorded(source, self.spec)
        self.dataset_fraction = dataset_fraction
        # buffers of data sets alone, and their weights
        self.recorded_weights: dict[str, float] = {}
        if dataset_fraction is not None or len(self.recorded) > 1:
            names = [RECORDED, *(f"{RECORDED}-{n}" for n in range(1, len(self.recorded)))]
            self.recorded_weights = {name: one.weight for name, one in zip(names, self.recorded, strict=True)}
        # name, hash and rows of each, for the run's record
        self.learned_from: list[dict[str, Any]] = []
        self.drawn: list[
            tuple[str, int]
        ] = []  # buffers that the newest batch is of, and how many windows of each
        if sequence_length < 2:
            raise ConfigError(f"data.sequence_length is {sequence_length}; it must be at least 2")
        self.batch_size, self.sequence_length, self.burn_in = batch_size, sequence_length, burn_in
        self.buffer_factory = buffer
        # what is recorded stands in for the random steps
        self.learning_starts, self.pretrain = 0 if self.recorded else learning_starts, pretrain
        self.train_every, self.train_ratio, self.store_latents = train_every, train_ratio, store_latents
        self.foresight: OpenLoopRollout | None = None  # of the last examination, for pictures

    def open(self, stage: str) -> None:
        super().open(stage)
        if stage != "fit" or self.replays:
            return
        budget, rows = self.clock.run.env_steps, self.sequence_length + self.burn_in
        steps = math.inf if budget is None or self.recorded else budget // self.env_steps_per_vector_step
        if steps + 1 < rows:
            raise ConfigError(
                f"windows have {rows} rows (data.sequence_length + data.burn_in) and each env makes "
                f"{steps} steps: use a smaller "
                "data.sequence_length, or more run.env_steps"
            )
        self.named("replay")
        for (source, _), name in zip(self.recorded, self.recorded_weights or ("replay",), strict=False):
            self._load_dataset(source, name)
        self.draw = self.generator("replay")
        self.random_act = random_actor(self.spec)

    def _load_dataset(self, source: OfflineSource, name: str) -> None:
        """Every rank learns from all of it; a resumed run brings what its buffers held."""
        rows = read_recorded(source, type(self.agent).__name__)
        self.learned_from.append({"name": rows.name, "sha256": rows.sha256, "rows": rows.rows})
        fill_with_episodes(self.named(name), rows, self.spec, self.env.palette)
        if not self.named(name).ready:
            raise ConfigError(
                f"{rows.name}: no episode has {self.sequence_length + self.burn_in} rows, which a window needs; use a "
                "smaller data.sequence_length"
            )

    def make_buffer(self, factory: SequenceReplayFactory) -> SequenceReplay:
        width = flatten_carry(self.agent.initial_carry(1)).shape[1] if self.store_latents else 0
        rows = self.sequence_length + self.burn_in
        return make(factory, SequenceReplay, "data.buffer", self.spec, self.num_envs, rows, width)

    def gather(self, act: ActFn, steps: int, name: str = "replay", greedy: bool = False) -> None:
        """Collects into a buffer, with the state that the actor had after each step where these are kept."""
        states: list[np.ndarray] = []

        def watched(
            obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            action, carry = act(obs, carry, generator, mask)
            states.append(flatten_carry(carry).float().cpu().numpy())
            return action, carry

        rows = self.collect(watched if self.store_latents else act, steps, greedy)
        self.buffer_to_fill(name, rows).add(rows, np.stack(states) if self.store_latents else None)

    def default_collect_steps(self) -> int:
        return max(1, math.ceil(self.train_every / self.env_steps_per_vector_step))

    def collect_in(self, phase: Phase, steps: int) -> None:
        self.gather(self.actor(phase), steps, phase.buffer, phase.deterministic_policy)

    def ready(self) -> bool:
        """Whether every rank has a window: all make the same number of updates."""
        ready = bool(self.recorded_weights) or self.named(self.active_buffer).ready
        return ready if self.world_size == 1 else all(distributed.gather_objects(ready))

    def batches(self) -> Iterator[Sequences]:
        """One turn. Nothing is collected while updates are due: in pretraining, or after a mark cut some off."""
        prefill = self.clock.env_step < self.learning_starts
        if prefill or not self.updates_due():
            self.gather(self.random_act if prefill else self.agent.act_fn(), self._turn(self.clock))
        if updates := self.updates_due():
            yield from self.sample_batches(self._in_one_block(self.clock, updates))

    def sample_batches(self, updates: int) -> Iterator[Sequences]:
        self.drawn_from = self.active_buffer
        for _ in range(updates):
            yield self.next_batch()
            if self.clock.at_mark:
                return

    def _in_one_block(self, clock: RunClock, updates: int) -> int:
        """Pretraining is done in parts, so that metrics and checkpoints are written meanwhile."""
        return (
            min(updates, PRETRAINED - clock.update % PRETRAINED) if clock.update < self.pretrain else updates
        )

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        due = self._due_at(clock.env_step) - clock.update
        rows = (
            len(self.buffer) // self.num_envs
            + (clock.env_step - self.clock.env_step) // self.env_steps_per_vector_step
        )
        enough = rows >= self.sequence_length + self.burn_in - 1  # or a little sooner
        ready = bool(self.recorded_weights) or self.buffer.ready or enough
        steps = 0 if due > 0 and ready else self._turn(clock) * self.env_steps_per_vector_step
        due = self._due_at(clock.env_step + steps) - clock.update
        return steps, self._in_one_block(clock, max(0, due)) if ready or steps else 0

    def forecast_collect(self, phase: Phase) -> int:
        return (phase.collect_steps or self.default_collect_steps()) * self.env_steps_per_vector_step

    def next_batch(self) -> Sequences:
        """One batch, drawn when it is wanted: priorities and stored states are then those of the last update."""
        self.drawn, parts = [(name, count) for name, count in self._shares() if count], []
        for name, count in self.drawn:
            self.named(name).progress = self.clock.progress
            parts.append(self.named(name).sample(count, self.draw))
        return joined(parts)._replace(burn_in=self.burn_in)

    def _shares(self) -> list[tuple[str, int]]:
        """How many windows of the next batch come from each buffer; of several data sets by chance."""
        own, played = self.recorded_weights, self.named(self.drawn_from)
        if not own:
            return [(self.drawn_from, self.batch_size)]
        fraction = 1.0 if not played.ready else self.dataset_fraction
        if len(own) == 1 and fraction is not None:
            recorded = round(fraction * self.batch_size)
            return [(RECORDED, recorded), (self.drawn_from, self.batch_size - recorded)]
        if fraction is None:
            rows = sum(len(self.named(name)) for name in own)
            fraction = rows / (rows + len(played))
        whole = sum(own.values())
        chances = torch.tensor([*(fraction * weight / whole for weight in own.values()), 1.0 - fraction])
        which = torch.multinomial(chances, self.batch_size, replacement=True, generator=self.draw)
        counts = which.bincount(minlength=len(chances)).tolist()
        return list(zip((*own, self.drawn_from), counts, strict=True))

    def _by_buffer(self, index: Tensor, values: Tensor) -> Iterator[tuple[SequenceReplay, Tensor, Tensor]]:
        """What belongs to each buffer that the newest batch was drawn from."""
        counts = [count for _, count in self.drawn]
        parts = zip(self.drawn, index.split(counts), values.split(counts), strict=True)
        yield from ((self.named(name), rows, own) for (name, _), rows, own in parts)

    def update_priorities(self, index: Tensor, priorities: Tensor) -> None:
        for buffer, rows, values in self._by_buffer(index, priorities):
            buffer.set_priorities(rows, values)

    def _turn(self, clock: RunClock) -> int:
        """Vector steps of this turn: random ones up to the budget, which a run with a larger one continues; those
        before an update may pass it, for a larger budget must go the same way."""
        prefill, wide = clock.env_step < self.learning_starts, self.env_steps_per_vector_step
        wanted = self.learning_starts - clock.env_step if prefill else self.train_every
        steps = max(1, math.ceil(wanted / wide))
        return clock.clip_steps(min(steps, MOST_COLLECTED), wide) if prefill else steps

    def updates_due(self) -> int:
        """Updates due by now, minus those done: no drift, also after a resume."""
        if not self.ready():
            return 0
        return max(0, self._due_at(self.clock.env_step) - self.clock.update)

    def _due_at(self, env_step: int) -> int:
        """Updates due in all by a clock, if there is a window to draw."""
        if env_step < self.learning_starts:
            return 0
        steps = (env_step - self.learning_starts) / (self.spec.action_repeat * self.world_size)
        return self.pretrain + math.floor(self.train_ratio * steps / (self.batch_size * self.sequence_length))

    def update_latents(self, index: Tensor, latents: Tensor) -> None:
        """Takes the recurrent states [B, L, W] that an update found on leaving the rows it saw."""
        if self.store_latents:
            for buffer, rows, values in self._by_buffer(index, latents):
                buffer.set_latents(rows, values)

    def diagnostics(self, module: Any) -> dict[str, Any]:
        """How well the module's world foresees: rows are played greedily, then dreamed on from their first part."""
        world = getattr(module, "world_model", None)
        if not isinstance(world, LatentWorld):
            return {}
        context = max(2, min(self.sequence_length // 2, FEW))
        batch = self.play_windows(module, context + STEPS[-1])
        if batch is None:
            return {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.derive("examine"))
            rows = batch._replace(**{k: getattr(batch, k).to(module.device) for k in batch._fields[:6]})
            self.foresight = open_loop_rollout_latent(world, rows, context)
        return open_loop_report(self.foresight)

    def play_windows(self, module: Any, length: int) -> Sequences | None:
        """Windows of fresh episodes, played greedily; None where there are too few rows."""
        envs = make_envs(self.env, FEW, "sync", training=False)
        training = module.training
        module.eval()
        try:
            collector = Collector(envs, self.derive("examine"))
            collector.carry = module.initial_carry(FEW)
            buffer = SequenceReplay(self.spec, FEW, length, 0, capacity=FEW * 8 * length)
            buffer.add(collector.collect(module.act_fn(), 3 * length, None))
        finally:
            envs.close()
            module.train(training)
        draw = torch.Generator().manual_seed(self.derive("examine"))
        return buffer.sample(8 * FEW, draw) if buffer.ready else None


def joined(parts: list[Sequences]) -> Sequences:
    """Windows of several buffers as one batch."""
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Any] = {}
    for name in Sequences._fields[:-1]:
        columns = [getattr(part, name) for part in parts]
        whole[name] = None if columns[0] is None else torch.cat(columns)
    return Sequences(**whole)


def flatten_carry(carry: Carry) -> Tensor:
    """All parts of a recurrent state side by side, [N, W]."""
    if not carry:
        raise ConfigError("data.store_latents needs a model that remembers; this one has no recurrent state")
    return torch.cat([part.flatten(1) for part in carry], 1)
