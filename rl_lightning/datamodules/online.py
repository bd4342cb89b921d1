"""Experience that is kept and replayed: the data of DQN and SAC."""

from __future__ import annotations

import math

import torch

from rl_lightning.buffers import BufferRecipe, Replay, ReplayBuffer
from rl_lightning.buffers.ring import RingBuffer
from rl_lightning.datamodules.replays import ReplayData
from rl_lightning.datasets import check_env, load_dataset, peek
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.phases import Phase
from rl_lightning.rollout.random_actor import random_actor
from rl_lightning.types import Block, Transitions

MOST_PREFILL = 1000  # vector steps of one block that only collects
TURNS = 16  # of one env step and one update each that share a block, and so Lightning's cost


class OnlineData(ReplayData[ReplayBuffer]):
    """Turns of collecting and replaying: `train_every` env steps, then as many updates as `update_ratio` asks for.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        batch_size: Rows of one update.
        buffer: Where experience is kept, and how it is drawn.
        learning_starts: Env steps with random actions before the first update.
        train_every: Env steps between updates (rounded up to whole steps of the vector).
        update_ratio: Updates per env step after the start; 1 is usual for SAC, higher learns more from less data.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
        dataset: Recorded rows that the buffer starts with, e.g. those that the policy was learned from; null: none.
    """

    def __init__(
        self,
        env: EnvConfig,
        num_envs: int = 1,
        batch_size: int = 256,
        buffer: BufferRecipe | None = None,
        learning_starts: int = 1000,
        train_every: int = 1,
        update_ratio: float = 1.0,
        vectorization: str = "sync",
        dataset: str | None = None,
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        self.recalled = dataset
        if dataset is not None:
            check_env(dataset, peek(dataset)[0], self.spec)
        for key, value in (
            ("batch_size", batch_size),
            ("train_every", train_every),
            ("update_ratio", update_ratio),
        ):
            if value <= 0:
                raise ConfigError(f"data.{key} is {value}; it must be positive")
        self.batch_size = batch_size
        self.recipe = buffer or Replay()
        self.learning_starts = learning_starts
        self.train_every = train_every
        self.update_ratio = update_ratio
        self.turns_per_block = TURNS

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage == "fit" and not self.replays:
            self.named("replay")
            if self.recalled is not None:
                self._recall(self.recalled)
            self.draw = self.generator("replay")
            self.random_act = random_actor(self.spec)

    def _recall(self, name: str) -> None:
        """Writes recorded rows as if they had just been played; a resumed run brings its own."""
        buffer = self.buffer
        if not isinstance(buffer, RingBuffer) or self.num_envs != 1 or self.spec.action_mask:
            raise ConfigError("data.dataset needs a Replay buffer of flat observations and data.num_envs 1")
        rows = load_dataset(name)
        if len(rows.reward) > buffer.capacity:
            raise ConfigError(
                f"{name} has {len(rows.reward)} rows; the buffer holds {buffer.capacity}. "
                f"Use --data.buffer.init_args.capacity {2 * len(rows.reward)}"
            )
        columns = (rows.obs, rows.action, rows.reward, rows.terminated, rows.truncated, rows.next_obs)
        buffer.push(torch.cat([column.reshape(len(rows.reward), -1).float() for column in columns], 1))

    def build_buffer(self, recipe: BufferRecipe) -> ReplayBuffer:
        return recipe.build(self.spec, self.num_envs)

    def usual_steps(self) -> int:
        return self._turn(prefill=False)

    def collect_in(self, phase: Phase, steps: int) -> None:
        rows = self.collect(self.actor(phase), steps, phase.deterministic_policy)
        self.filling(phase.buffer, rows).add(rows)

    def ready(self) -> bool:
        return len(self.named(self.due_buffer)) >= max(self.batch_size, 2 * self.num_envs)

    def batches(self, updates: int, hook: str) -> Block:
        return Block(self.sample(updates), updates, hook)

    def turn(self) -> Block:
        prefill = self.schedule.env_step < self.learning_starts
        if not prefill and self._one_each():
            wide = self._turn(prefill=False) * self.wide
            return Block(self.next_batch, self.schedule.turns_ahead(wide, self.turns_per_block))
        self.buffer.add(
            self.collect(self.random_act if prefill else self.agent.player(), self._turn(prefill))
        )
        updates = self._owed()
        return self.batches(updates, "update") if updates else Block(None, 0)

    def next_batch(self) -> Transitions:
        """One turn: collects with the policy as it is now, and draws one batch."""
        self.schedule.begin_block()
        self.agent.progress = self.schedule.progress
        self.buffer.add(self.collect(self.agent.player(), self._turn(prefill=False)))
        return self._draw(self.batch_size)

    def _one_each(self) -> bool:
        """Every turn is followed by one update, and none is owed: several turns then fit into one block."""
        per_turn = self.update_ratio * self._turn(prefill=False) * self.wide
        ready = len(self.buffer) >= max(2 * self.num_envs, 1)
        return self.turns_per_block > 1 and per_turn == 1.0 and ready and self._owed() == 0

    def _turn(self, prefill: bool) -> int:
        """Vector steps of this turn. It may pass the budget: a run with a larger one must go the same way."""
        wanted = self.learning_starts - self.schedule.env_step if prefill else self.train_every
        steps = math.ceil(wanted / self.wide)
        return max(1, min(steps, MOST_PREFILL) if prefill else steps)

    def _owed(self) -> int:
        """Updates due by now: floor(ratio * steps since the start), minus those done. No drift, also after a resume."""
        if len(self.buffer) < max(self.num_envs * 2, 1):
            return 0
        due = math.floor(self.update_ratio * max(0, self.schedule.env_step - self.learning_starts))
        return max(0, due - self.schedule.update)

    def sample(self, updates: int) -> Transitions:
        """One gather for the whole block, as [U, B, ...]."""
        rows, shape = self._draw(updates * self.batch_size), (updates, self.batch_size)
        return rows._replace(**{k: v.unflatten(0, shape) for k, v in rows._asdict().items() if v is not None})

    def _draw(self, count: int) -> Transitions:
        self.drawn_from = self.due_buffer
        buffer, agent = self.named(self.drawn_from), self.agent
        buffer.progress = self.schedule.progress
        return buffer.sample(count, self.draw, agent.n_step, agent.gamma)
