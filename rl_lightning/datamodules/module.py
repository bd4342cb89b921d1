"""The base of all DataModules: a sized stream of blocks, the clocks, and everything that must be saved with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningDataModule

from rl_lightning.buffers.segments import SegmentStore
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.evaluate import extra_means
from rl_lightning.rollout.phases import Hook, Phase, PhaseCursor
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


class PhaseView(NamedTuple):
    """What an update rule may know of the phase it works in."""

    phase: Phase
    progress: float  # share of the phase that was over when the block began


class RLData(LightningDataModule):
    """Base of the DataModules. A subclass sets `spec` in its constructor and defines `batches()`; one that collects
    between updates also defines `turn()`."""

    spec: EnvSpec
    clock = "env_step"  # the public x-axis; "update" where there is no env
    updates_per_block = 1  # of a turn that only samples

    def __init__(self) -> None:
        super().__init__()
        self.schedule = RunSchedule(clock=self.clock)
        self.seed = 0
        self.view: PhaseView | None = None  # the phase of the current block, for losses to see
        self.skips = 0  # updates skipped for want of data since metrics were last emitted
        self.longest = 0  # env steps of the longest episode that ended by itself
        self.episodes: list[EpisodeStats] = []  # ended since the last time metrics were emitted

    def configure(self, run: RunConfig, seed: int) -> None:
        """Sets budgets and seed; called once, before `setup`."""
        self.schedule.run = run
        self.seed = seed

    def check_model(self, module: Any) -> None:
        """Raises where these data cannot serve a module; called once both are there, before a run has a folder."""

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
        """What the next training_step gets: the data's natural turn, or the hook that a phase has due."""
        self.schedule.begin_block()
        self.schedule.evaluate_now = False
        self.agent.progress = self.schedule.progress  # exploration may hang on it
        return self.turn() if self.schedule.phases is None else self._phase_block(self.schedule.phases)

    def turn(self) -> Block:
        """Collects and samples as the algorithm usually wants it; this one samples only."""
        return self.batches(self.schedule.clip_updates(self.updates_per_block), "update")

    def batches(self, updates: int, hook: str) -> Block:
        """The block for at most `updates` calls of a method of the module that learns."""
        raise ConfigError(f"{type(self).__name__} has no batches for '{hook}'")

    def ready(self) -> bool:
        """Whether there is enough data for the batches that a phase wants."""
        return True

    def updates_in_a_row(self, hook: Hook) -> int:
        """Updates that a phase's hook makes each time."""
        return hook.count

    def collect_hook(self, phase: Phase, made: int) -> int:
        """Collects once, as the phase says, `made` env steps of it being there; returns those that are left to do."""
        raise ConfigError(f"phase '{phase.name}': {type(self).__name__} has nothing to collect from")

    def _phase_block(self, cursor: PhaseCursor) -> Block:
        phase, hook, before = cursor.phase, cursor.next_hook(), self.schedule.env_step
        block, left, skipped = Block(None, 0), 0, False
        if hook.name == "collect":
            left = self.collect_hook(phase, cursor.part)
        elif hook.name == "evaluate":
            self.schedule.evaluate_now = True
        elif self.ready():
            wanted = cursor.room_for_updates(self.updates_in_a_row(hook)) - cursor.part
            block = self.batches(self.schedule.clip_updates(wanted), hook.name)
            left = wanted - block.updates
        elif phase.type == "offline" and cursor.starved > len(phase.hooks):
            raise ConfigError(
                f"phase '{phase.name}' is offline and its buffer '{phase.buffer}' will never hold enough rows; "
                f"collect first, or give it data"
            )
        else:
            skipped = True
            self.skips += 1
        self.view = PhaseView(phase, cursor.progress)
        cursor.advance(self.schedule.env_step - before, block.updates, skipped, whole=left <= 0)
        return block

    def feedback(self, block: Block, priorities: torch.Tensor) -> None:
        """Takes what the update rule says about the rows it saw, e.g. how wrong it was about each."""

    def remember(self, block: Block, latents: torch.Tensor) -> None:
        """Takes the recurrent states that the update rule found in the rows it saw."""

    def scores(self, summary: dict[str, float]) -> dict[str, float]:
        """More numbers about an evaluation, e.g. its return on a data set's own scale."""
        return {}

    def examine(self, module: Any) -> dict[str, Any]:
        """What `rl test` tells besides the episodes: numbers by name, or groups of them."""
        return {}

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

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """All that this rank's data needs to go on exactly; large rows go to the store."""
        episodes = [tuple(e) for e in self.episodes]
        counts = {"skips": self.skips, "longest": self.longest}
        return {"schedule": self.schedule.state_dict(), "episodes": episodes, **counts}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.schedule.load_state_dict(state["schedule"])
        self.episodes = [EpisodeStats(*e) for e in state["episodes"]]
        self.skips = state["skips"]
        self.longest = int(state.get("longest", 0))

    def collect_metrics(self) -> dict[str, float]:
        """Means over the training episodes that ended since the last call."""
        episodes, self.episodes = self.episodes, []
        metrics: dict[str, float] = {}
        if self.schedule.phases is not None:
            metrics = {
                "train/phase": float(self.schedule.phases.index),
                "train/skipped_updates": float(self.skips),
            }
            self.skips = 0
        if not episodes:
            return metrics
        metrics |= {
            "collect/return": sum(e.episode_return for e in episodes) / len(episodes),
            "collect/length": sum(e.length for e in episodes) / len(episodes),
            "collect/episodes": float(len(episodes)),
        }
        return metrics | {f"collect/{key}": value for key, value in extra_means(episodes).items()}
