"""Experience that is kept and replayed: the data of DQN and SAC."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.clock.phases import Phase
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.replay_data import ReplayData
from rl_lightning.datasets import check_env, load_dataset
from rl_lightning.datasets.dataset import check_learner
from rl_lightning.datasets.in_memory import DatasetLike, OfflineSource, look_at
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.ranges import NonNegativeInt, PositiveFloat, PositiveInt
from rl_lightning.replay import BufferFactory, Replay, ReplayBuffer
from rl_lightning.replay.ring import RingBuffer
from rl_lightning.types import Transitions

MOST_PREFILL = 1000  # vector steps of one block that only collects
TURNS = 16  # of one env step and one update each that share a block, and so Lightning's cost


class OnlineData(ReplayData[ReplayBuffer]):
    """Turns of collecting and replaying: `train_every` env steps, then as many updates as `utd_ratio` asks for.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        batch_size: Rows of one update.
        buffer: Where experience is kept, and how it is drawn.
        learning_starts: Env steps with random actions before the first update.
        train_every: Env steps between updates (rounded up to whole steps of the vector).
        utd_ratio: Updates per env step after the start; 1 is usual for SAC, higher learns more from less data.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
        dataset: Recorded rows that the buffer starts with, e.g. those that the policy was learned from; null: none. In
            Python also arrays in memory, as OfflineData takes them.
    """

    yields = Transitions

    def __init__(
        self,
        env: EnvLike,
        num_envs: PositiveInt = 1,
        batch_size: PositiveInt = 256,
        buffer: BufferFactory = Replay,
        learning_starts: NonNegativeInt = 1000,
        train_every: PositiveInt = 1,
        utd_ratio: PositiveFloat = 1.0,
        vectorization: str = "sync",
        dataset: DatasetLike | None = None,
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        self.recalled = None if dataset is None else look_at(dataset)
        if self.recalled is not None:
            check_env(self.recalled.name, self.recalled.spec, self.spec)
        self.batch_size = batch_size
        self.buffer_factory = buffer
        self.learning_starts = learning_starts
        self.train_every = train_every
        self.utd_ratio = utd_ratio
        self.turns_per_block = TURNS

    def open(self, stage: str) -> None:
        super().open(stage)
        if stage == "fit" and not self.replays:
            self.named("replay")
            if self.recalled is not None:
                self._load_dataset(self.recalled)
            self.draw = self.generator("replay")
            self.random_act = random_actor(self.spec)

    def _load_dataset(self, source: OfflineSource) -> None:
        """Writes recorded rows as if they had just been played; a resumed run brings its own."""
        buffer = self.buffer.store if type(self.buffer) is Replay else None
        if not isinstance(buffer, RingBuffer) or self.num_envs != 1 or self.spec.action_mask:
            raise ConfigError("data.dataset needs a Replay buffer of flat observations and data.num_envs 1")
        name = source.name
        rows = load_dataset(name) if source.dataset is None else source.dataset
        check_learner(rows, "an online learner", ("rewards", "terminals"))
        if len(rows.reward) > buffer.capacity:
            raise ConfigError(
                f"{name} has {len(rows.reward)} rows; the buffer holds {buffer.capacity}. "
                f"Use --data.buffer.init_args.capacity {2 * len(rows.reward)}"
            )
        columns = (rows.obs, rows.action, rows.reward, rows.terminated, rows.truncated, rows.next_obs)
        buffer.push(torch.cat([column.reshape(len(rows.reward), -1).float() for column in columns], 1))

    def make_buffer(self, factory: BufferFactory) -> ReplayBuffer:
        buffer = make(factory, ReplayBuffer, "data.buffer", self.spec, self.num_envs)
        buffer.use_env(self.env)
        return buffer

    def default_collect_steps(self) -> int:
        return max(1, math.ceil(self.train_every / self.env_steps_per_vector_step))

    def collect_in(self, phase: Phase, steps: int) -> None:
        rows = self.collect(self.actor(phase), steps, phase.deterministic_policy)
        self.buffer_to_fill(phase.buffer, rows).add(rows)

    def ready(self) -> bool:
        return len(self.named(self.active_buffer)) >= max(self.batch_size, 2 * self.num_envs)

    def batches(self) -> Iterator[Transitions]:
        """One turn, or several where each is one update; updates that a mark cut off are made up for first."""
        prefill = self.clock.env_step < self.learning_starts
        if not prefill and self._one_update_per_turn():
            wide = self._turn(self.clock) * self.env_steps_per_vector_step
            for _ in range(self.clock.blocks_until_due(wide, self.turns_per_block)):
                yield self.next_batch()
            return
        if prefill or not self.updates_due():
            act = self.random_act if prefill else self.agent.act_fn()
            self.buffer.add(self.collect(act, self._turn(self.clock)))
        if updates := self.updates_due():
            yield from self.sample_batches(updates)

    def sample_batches(self, updates: int) -> Iterator[Transitions]:
        yield from self.unstack(self.sample(updates))

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        wide, prefill = (
            self._turn(clock) * self.env_steps_per_vector_step,
            clock.env_step < self.learning_starts,
        )
        rows = len(self.buffer) + clock.env_step - self.clock.env_step
        owed = self._due(clock.env_step) - clock.update if self._enough(rows) else 0
        if not prefill and owed <= 0 and self._enough(rows) and self._one_per_turn(wide):
            turns = clock.blocks_until_due(wide, self.turns_per_block)
            return turns * wide, turns
        steps = wide if prefill or owed <= 0 else 0
        owed = self._due(clock.env_step + steps) - clock.update if self._enough(rows + steps) else 0
        return steps, max(0, owed)

    def forecast_collect(self, phase: Phase) -> int:
        return (phase.collect_steps or self.default_collect_steps()) * self.env_steps_per_vector_step

    def next_batch(self) -> Transitions:
        """One turn: collects with the policy as it is now, and draws one batch."""
        self.clock.begin_block()
        self.buffer.add(self.collect(self.agent.act_fn(), self._turn(self.clock)))
        return self._draw(self.batch_size)

    def _one_update_per_turn(self) -> bool:
        """Every turn is followed by one update, and none is owed: several turns then fit into one block."""
        return (
            self._enough(len(self.buffer))
            and self._one_per_turn(self._turn(self.clock) * self.env_steps_per_vector_step)
            and self.updates_due() == 0
        )

    def _enough(self, rows: int) -> bool:
        return rows >= 2 * self.num_envs

    def _one_per_turn(self, wide: int) -> bool:
        """Whether a turn of so many env steps is worth one update, and several may share a block."""
        return self.turns_per_block > 1 and self.utd_ratio * wide == 1.0

    def _turn(self, clock: RunClock) -> int:
        """Vector steps of this turn: random ones up to the budget, which a run with a larger one continues; those
        before an update may pass it, for a larger budget must go the same way."""
        prefill, wide = clock.env_step < self.learning_starts, self.env_steps_per_vector_step
        wanted = self.learning_starts - clock.env_step if prefill else self.train_every
        steps = max(1, math.ceil(wanted / wide))
        return clock.clip_steps(min(steps, MOST_PREFILL), wide) if prefill else steps

    def updates_due(self) -> int:
        """Updates due by now: floor(ratio * steps since the start), minus those done. No drift, also after a resume."""
        if not self._enough(len(self.buffer)):
            return 0
        return max(0, self._due(self.clock.env_step) - self.clock.update)

    def _due(self, env_step: int) -> int:
        return math.floor(self.utd_ratio * max(0, env_step - self.learning_starts))

    def sample(self, updates: int) -> Transitions:
        """One gather for the whole block, as [U, B, ...]."""
        rows, shape = self._draw(updates * self.batch_size), (updates, self.batch_size)
        return rows._replace(**{k: v.unflatten(0, shape) for k, v in rows._asdict().items() if v is not None})

    def _draw(self, count: int) -> Transitions:
        self.drawn_from = self.active_buffer
        buffer, agent = self.named(self.drawn_from), self.agent
        buffer.progress = self.clock.progress
        return buffer.sample(count, self.draw, agent.n_step, agent.gamma)
