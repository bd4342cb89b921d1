"""The blocks of an epoch: planned by clocks that run ahead, then walked through, collected and sampled."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningDataModule

from rl_lightning.clock.phases import Hook, Phase, PhaseContext, PhaseCursor
from rl_lightning.clock.run_clock import RunClock, RunConfig
from rl_lightning.datamodules.bases.run_arguments import RunArguments
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.block import Block, rest, select_update
from rl_lightning.seeding import derive
from rl_lightning.trainer.loops import set_global_step

ENDLESS = 1000  # blocks of an epoch that no evaluation ends


class BlockStream:
    """One epoch: the blocks up to the next evaluation. All state is the data's.

    Args:
        data: Makes the blocks.
        done: Those that the epoch has behind it when it is resumed.
    """

    def __init__(self, data: BlockData, done: int = 0) -> None:
        self.data, self.done = data, done
        self.length = done + data.plan_epoch()

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Block]:
        for number in range(self.done, self.length):
            block = self.data.next_block(last=number + 1 == self.length)
            self.data.clock.blocks = number + 1
            yield block

    def state_dict(self) -> dict[str, Any]:
        """Nothing: it is the DataModule that is resumed. Lightning warns of streams that cannot be."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See state_dict."""


class BlockData(LightningDataModule, metaclass=RunArguments):
    """The half of a DataModule that trains: its clocks, and the blocks that move them."""

    clock_name = "env_step"  # the public x-axis; "update" where there is no env
    default_eval_every: ClassVar[int] = 10_000
    updates_per_block = 1  # of a block that only samples

    def __init__(self) -> None:
        super().__init__()
        self.clock = RunClock(clock_name=self.clock_name)
        self.seed = 0
        self.skips = 0  # updates skipped for want of data since metrics were last emitted
        self.pending: Any = None  # batches of a gather that a mark cut: the next block begins with them
        self._evaluating: Phase | None = None  # the phase whose hook asked for the evaluation that is due

    def __str__(self) -> str:
        """Lightning's own asks every loader for its batches, which here would collect and move the clocks."""
        spec = getattr(self, "spec", None)
        return (
            f"<{type(self).__name__} of {'no data yet' if spec is None else spec.env_id or 'recorded rows'}>"
        )

    __repr__ = __str__

    def configure(self, run: RunConfig, seed: int) -> None:
        """Sets budgets and seed; called once, before `setup`."""
        self.clock.run = run
        self.seed = seed

    def notes(self) -> list[str]:
        """What a user should know before anything is trained."""
        return []

    # ---------------------------------------------------------------------------------------------------------- ranks
    @property
    def rank(self) -> int:
        return self.trainer.global_rank if self.trainer is not None else 0

    @property
    def world_size(self) -> int:
        return self.trainer.world_size if self.trainer is not None else 1

    def derive(self, name: str) -> int:
        """A seed of this rank's own for something with a name."""
        return derive(self.seed, name, self.rank)

    def generator(self, name: str) -> torch.Generator:
        return torch.Generator().manual_seed(self.derive(name))

    # --------------------------------------------------------------------------------------------------------- blocks
    def plan_epoch(self) -> int:
        """Blocks from here to the next evaluation, by a copy of the clocks that runs ahead.

        In a phase whose hooks do not move the clock there may be no such end: then it is a number of blocks, after
        which nothing is evaluated. Budgets do not count: they end the Trainer, not the epoch, which a run with a
        larger one continues with.
        """
        clock = copy.copy(self.clock)
        clock.phases = copy.deepcopy(self.clock.phases)
        clock.run = dataclasses.replace(clock.run, env_steps=None, updates=None)
        clock.limits = clock.limits._replace(updates=None)
        if clock.target is None and clock.phases is None:
            return ENDLESS
        waiting = 0 if self.pending is None else len(self.pending[0])
        blocks = 0
        while not clock.epoch_over:
            if clock.phases is not None and (clock.phases.finished or blocks >= ENDLESS):
                self.clock.open_end = not clock.phases.finished
                break
            if not waiting:
                steps, waiting = self.forecast(clock) if clock.phases is None else self._foresee(clock)
                clock.env_step += steps
            updates = clock.updates_until_mark(waiting)
            clock.update += updates
            waiting -= updates
            blocks += 1
        return max(1, blocks)

    def forecast(self, clock: RunClock) -> tuple[int, int]:
        """Env steps and updates of the block that begins at these clocks, as far as they alone tell."""
        return 0, self.cut_updates(clock, clock.clip_updates(self.updates_per_block))

    def cut_updates(self, clock: RunClock, updates: int) -> int:
        """At most `updates`, where the data themselves end a block sooner."""
        return updates

    def _foresee(self, clock: RunClock) -> tuple[int, int]:
        """The same in a phase; its cursor moves along."""
        cursor = clock.phases
        assert cursor is not None
        hook, steps, updates, left = cursor.next_hook(), 0, 0, 0
        if hook.name == "collect":
            steps = self.forecast_collect(cursor.phase)
        elif hook.name == "evaluate":
            clock.evaluate_now = True
        else:
            wanted = cursor.room_for_updates(self.updates_per_hook(hook)) - cursor.part
            updates = clock.updates_until_mark(self.cut_updates(clock, clock.clip_updates(wanted)))
            left = wanted - updates
        cursor.advance(steps, updates, whole=left <= 0)
        return steps, updates

    def forecast_collect(self, phase: Phase) -> int:
        """Env steps of one collect of a phase."""
        return 0

    def next_block(self, last: bool = False) -> Block:
        """What the next training_step gets. The `last` one of an epoch lasts until its evaluation is due, whatever the
        plan foresaw."""
        block = Block(self, iter(()))
        block.batches = self._walk(block, last)
        return block

    def _walk(self, block: Block, last: bool) -> Iterator[Any]:
        schedule = self.clock
        while not schedule.epoch_over and not schedule.is_finished:
            if self.pending is not None:
                waiting, self.pending = self.pending, None
                yield from self.unstack(waiting)
            else:
                schedule.begin_block()
                yield from (
                    self.batches() if schedule.phases is None else self._phase_batches(block, schedule.phases)
                )
            endless = schedule.target is None or schedule.open_end
            if not last or endless or schedule.at_mark or schedule.is_finished:
                return

    def batches(self) -> Iterator[Any]:
        """The batches of one block, collected and sampled as the algorithm usually wants it; this one samples only."""
        yield from self.sample_batches(self.clock.clip_updates(self.updates_per_block))

    def sample_batches(self, updates: int) -> Iterator[Any]:
        """So many batches of what is there."""
        raise ConfigError(f"{type(self).__name__} has no batches to sample")
        yield

    def unstack(self, stacked: Any) -> Iterator[Any]:
        """The batches of one gather [U, ...]; where a mark ends the block, the rest waits for the next one."""
        updates = len(stacked[0])
        for u in range(updates):
            yield select_update(stacked, u)
            if u + 1 < updates and self.clock.at_mark:
                self.pending = rest(stacked, u + 1)
                return

    def count_update(self) -> None:
        """The one place where this clock moves; Lightning's own follows it."""
        self.clock.update += 1
        if self.trainer is not None:
            set_global_step(self.trainer, self.clock.update)

    def ready(self) -> bool:
        """Whether there is enough data for the batches that a phase wants."""
        return True

    def updates_per_hook(self, hook: Hook) -> int:
        """Updates that a phase's hook makes each time."""
        return hook.count

    def collect_hook(self, phase: Phase, collected: int) -> int:
        """Collects once, as the phase says, after `collected` env steps of it; returns those that are left to do."""
        raise ConfigError(f"phase '{phase.name}': {type(self).__name__} has nothing to collect from")

    def _phase_batches(self, block: Block, cursor: PhaseCursor) -> Iterator[Any]:
        """What the due hook of a phase does; the cursor moves on when it is done."""
        phase, hook, before = cursor.phase, cursor.next_hook(), self.clock.env_step
        block.hook, block.phase = hook.name, PhaseContext(phase, cursor.progress)
        updates, left, skipped = 0, 0, False
        if hook.name == "collect":
            left = self.collect_hook(phase, cursor.part)
        elif hook.name == "evaluate":
            self.clock.evaluate_now, self._evaluating = True, phase
        elif self.ready():
            wanted = cursor.room_for_updates(self.updates_per_hook(hook)) - cursor.part
            for batch in self.sample_batches(self.clock.updates_until_mark(self.clock.clip_updates(wanted))):
                yield batch
                updates += 1
            left = wanted - updates
        elif phase.type == "offline" and cursor.starved > len(phase.hooks):
            raise ConfigError(
                f"phase '{phase.name}' is offline and its buffer '{phase.buffer}' will never hold enough rows; "
                f"collect first, or give it data"
            )
        else:
            skipped = True
            self.skips += 1
        cursor.advance(self.clock.env_step - before, updates, skipped, whole=left <= 0)

    def update_priorities(self, index: torch.Tensor, priorities: torch.Tensor) -> None:
        """Takes what the update rule says about the rows it saw, e.g. how wrong it was about each."""

    def update_latents(self, index: torch.Tensor, latents: torch.Tensor) -> None:
        """Takes the recurrent states that the update rule found in the rows it saw."""
