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
from rl_lightning.clock.run_clock import RunSchedule
from rl_lightning.datamodules.bases.replay_data import ReplayData
from rl_lightning.envs.make import make_envs
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.errors import ConfigError
from rl_lightning.models.rssm.open_loop import STEPS, Foresight, foresee, open_loop_report
from rl_lightning.models.rssm.world_model import WorldModel
from rl_lightning.replay.sequence import SequenceBuffer, SequenceReplay
from rl_lightning.rollout.collect import Act, Collector
from rl_lightning.types import Carry, Sequences

FEW = 8  # envs and rows that an examination begins with
MOST_COLLECTED = 1000  # vector steps of one block that only collects
PRETRAINED = 100  # updates of pretraining in one block


class SequenceData(ReplayData[SequenceBuffer]):
    """Turns of collecting and replaying windows: `train_every` env steps, then the updates that `train_ratio` asks for.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        batch_size: Windows of one update.
        length: Rows of a window that are learned from.
        burn_in: Rows before them that only warm the recurrent state up.
        buffer: Where rows are kept, and how windows are drawn.
        prefill: Env steps with random actions before the first update.
        pretrain: Updates made at once when the prefill is there.
        train_every: Env steps between updates (rounded up to whole steps of the vector).
        train_ratio: Rows replayed per step of an agent: updates per step times batch_size times length.
        store_latents: Keep the agent's recurrent state with every row, refresh it in training, begin windows from it.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
    """

    yields = Sequences

    def __init__(
        self,
        env: EnvLike,
        num_envs: int = 1,
        batch_size: int = 16,
        length: int = 64,
        burn_in: int = 0,
        buffer: SequenceReplay | None = None,
        prefill: int = 1000,
        pretrain: int = 0,
        train_every: int = 1,
        train_ratio: float = 512.0,
        store_latents: bool = False,
        vectorization: str = "sync",
    ) -> None:
        super().__init__(env, num_envs, vectorization)
        for key, value, least in (
            ("batch_size", batch_size, 1), ("length", length, 2), ("burn_in", burn_in, 0), ("prefill", prefill, 0),
            ("pretrain", pretrain, 0), ("train_every", train_every, 1),
        ):  # fmt: skip
            if value < least:
                raise ConfigError(f"data.{key} is {value}; it must be at least {least}")
        if train_ratio <= 0:
            raise ConfigError(f"data.train_ratio is {train_ratio}; it must be positive")
        self.batch_size, self.length, self.burn_in = batch_size, length, burn_in
        self.recipe = buffer or SequenceReplay()
        self.prefill, self.pretrain = prefill, pretrain
        self.train_every, self.train_ratio, self.store_latents = train_every, train_ratio, store_latents
        self.foresight: Foresight | None = None  # of the last examination, for pictures

    def open(self, stage: str) -> None:
        super().open(stage)
        if stage != "fit" or self.replays:
            return
        budget, rows = self.schedule.run.env_steps, self.length + self.burn_in
        if budget is not None and budget // self.wide + 1 < rows:
            raise ConfigError(
                f"windows have {rows} rows (data.length + data.burn_in) and each env makes "
                f"{budget // self.wide} steps: use a smaller data.length, or more run.env_steps"
            )
        self.named("replay")
        self.draw = self.generator("replay")
        self.random_act = random_actor(self.spec)

    def build_buffer(self, recipe: SequenceReplay) -> SequenceBuffer:
        width = flat(self.agent.initial_carry(1)).shape[1] if self.store_latents else 0
        return recipe.build(self.spec, self.num_envs, self.length + self.burn_in, width)

    def gather(self, act: Act, steps: int, name: str = "replay", greedy: bool = False) -> None:
        """Collects into a buffer, with the state that the actor had after each step where these are kept."""
        states: list[np.ndarray] = []

        def watched(
            obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            action, carry = act(obs, carry, explore, mask)
            states.append(flat(carry).float().cpu().numpy())
            return action, carry

        rows = self.collect(watched if self.store_latents else act, steps, greedy)
        self.filling(name, rows).add(rows, np.stack(states) if self.store_latents else None)

    def usual_steps(self) -> int:
        return max(1, math.ceil(self.train_every / self.wide))

    def collect_in(self, phase: Phase, steps: int) -> None:
        self.gather(self.actor(phase), steps, phase.buffer, phase.deterministic_policy)

    def ready(self) -> bool:
        """Whether every rank has a window: all make the same number of updates."""
        ready = self.named(self.due_buffer).ready
        return ready if self.world_size == 1 else all(distributed.gather_objects(ready))

    def batches(self) -> Iterator[Sequences]:
        """One turn. Nothing is collected while updates are due: in pretraining, or after a mark cut some off."""
        prefill = self.schedule.env_step < self.prefill
        if prefill or not self._due():
            self.gather(self.random_act if prefill else self.agent.player(), self._turn(self.schedule))
        if updates := self._due():
            yield from self.sample_batches(self._in_one_block(self.schedule, updates))

    def sample_batches(self, updates: int) -> Iterator[Sequences]:
        self.drawn_from = self.due_buffer
        for _ in range(updates):
            yield self.next_batch()
            if self.schedule.at_mark:
                return

    def _in_one_block(self, clock: RunSchedule, updates: int) -> int:
        """Pretraining is done in parts, so that metrics and checkpoints are written meanwhile."""
        return (
            min(updates, PRETRAINED - clock.update % PRETRAINED) if clock.update < self.pretrain else updates
        )

    def forecast(self, clock: RunSchedule) -> tuple[int, int]:
        due = self._due_at(clock.env_step) - clock.update
        rows = len(self.buffer) // self.num_envs + (clock.env_step - self.schedule.env_step) // self.wide
        ready = self.buffer.ready or rows >= self.length + self.burn_in - 1  # or a little sooner
        steps = 0 if due > 0 and ready else self._turn(clock) * self.wide
        due = self._due_at(clock.env_step + steps) - clock.update
        return steps, self._in_one_block(clock, max(0, due)) if ready or steps else 0

    def forecast_collect(self, phase: Phase) -> int:
        return (phase.collect_length or self.usual_steps()) * self.wide

    def next_batch(self) -> Sequences:
        """One batch, drawn when it is wanted: priorities and stored states are then those of the last update."""
        buffer = self.named(self.drawn_from)
        buffer.progress = self.schedule.progress
        return buffer.sample(self.batch_size, self.draw)._replace(burn_in=self.burn_in)

    def _turn(self, clock: RunSchedule) -> int:
        """Vector steps of this turn. It may pass the budget: a run with a larger one must go the same way."""
        prefill = clock.env_step < self.prefill
        wanted = self.prefill - clock.env_step if prefill else self.train_every
        steps = math.ceil(wanted / self.wide)
        return max(1, min(steps, MOST_COLLECTED) if prefill else steps)

    def _due(self) -> int:
        """Updates due by now, minus those done: no drift, also after a resume."""
        if not self.ready():
            return 0
        return max(0, self._due_at(self.schedule.env_step) - self.schedule.update)

    def _due_at(self, env_step: int) -> int:
        """Updates due in all by a clock, if there is a window to draw."""
        if env_step < self.prefill:
            return 0
        steps = (env_step - self.prefill) / (self.spec.action_repeat * self.world_size)
        return self.pretrain + math.floor(self.train_ratio * steps / (self.batch_size * self.length))

    def update_latents(self, index: Tensor, latents: Tensor) -> None:
        """Takes the recurrent states [B, L, W] that an update found on leaving the rows it saw."""
        if self.store_latents:
            self.named(self.drawn_from).set_latents(index, latents)

    def examine(self, module: Any) -> dict[str, Any]:
        """How well the module's world foresees: rows are played greedily, then dreamed on from their first part."""
        world = getattr(module, "world", None)
        if not isinstance(world, WorldModel):
            return {}
        context = max(2, min(self.length // 2, FEW))
        batch = self.play_windows(module, context + STEPS[-1])
        if batch is None:
            return {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.derive("examine"))
            rows = batch._replace(**{k: getattr(batch, k).to(module.device) for k in batch._fields[:6]})
            self.foresight = foresee(world, rows, context)
        return open_loop_report(self.foresight)

    def play_windows(self, module: Any, length: int) -> Sequences | None:
        """Windows of fresh episodes, played greedily; None where there are too few rows."""
        envs = make_envs(self.env, FEW, "sync", training=False)
        training = module.training
        module.eval()
        try:
            collector = Collector(envs, self.derive("examine"))
            collector.carry = module.initial_carry(FEW)
            buffer = SequenceReplay(FEW * 8 * length).build(self.spec, FEW, length)
            buffer.add(collector.collect(module.player(), 3 * length, None))
        finally:
            envs.close()
            module.train(training)
        draw = torch.Generator().manual_seed(self.derive("examine"))
        return buffer.sample(8 * FEW, draw) if buffer.ready else None


def flat(carry: Carry) -> Tensor:
    """All parts of a recurrent state side by side, [N, W]."""
    if not carry:
        raise ConfigError("data.store_latents needs a model that remembers; this one has no recurrent state")
    return torch.cat([part.flatten(1) for part in carry], 1)
