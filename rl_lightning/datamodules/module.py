"""The base of all DataModules: a planned stream of blocks, the clocks, and everything that must be saved with them."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from lightning.pytorch import LightningDataModule

from rl_lightning import types
from rl_lightning.buffers.segments import SegmentStore
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.block import Block, pick, rest
from rl_lightning.rollout.evaluate import extra_means
from rl_lightning.rollout.learner import Learner
from rl_lightning.rollout.phases import Hook, Phase, PhaseContext, PhaseCursor
from rl_lightning.rollout.rounds import ROUND, EvaluationRound, EvaluationRounds
from rl_lightning.rollout.schedule import RunConfig, RunSchedule
from rl_lightning.seeding import derive
from rl_lightning.trainer.loops import is_last_block, limits_of, set_global_step
from rl_lightning.types import EnvSpec, EpisodeStats

ENDLESS = 1000  # blocks of an epoch that no evaluation ends
SANITY_STEPS = 200  # env steps of an episode of Lightning's sanity check
GATHERED = {kind.__name__: kind for kind in (types.Transitions, types.FrameWindow, types.ActionWindows)}
RUN_ARGUMENTS = ("env_steps", "updates", "eval_every", "eval_episodes")


class BlockStream:
    """One epoch: the blocks up to the next evaluation. All state is the data's.

    Args:
        data: Makes the blocks.
        done: Those that the epoch has behind it when it is resumed.
    """

    def __init__(self, data: RLData, done: int = 0) -> None:
        self.data, self.done = data, done
        self.length = done + data.plan_epoch()

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Block]:
        for number in range(self.done, self.length):
            block = self.data.next_block(last=number + 1 == self.length)
            self.data.schedule.blocks = number + 1
            yield block

    def state_dict(self) -> dict[str, Any]:
        """Nothing: it is the DataModule that is resumed. Lightning warns of streams that cannot be."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See state_dict."""


class RunArguments(type):
    """Lets every DataModule take what a config has in `run:` as arguments: seed, env_steps, updates, eval_every,
    eval_episodes."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in RUN_ARGUMENTS if name in kwargs}
        seed = kwargs.pop("seed", 0)
        data = super().__call__(*args, **kwargs)
        data.configure(RunConfig(**{"eval_every": cls.default_eval_every, **given}), seed)  # type: ignore[attr-defined]
        return data


class RLData(LightningDataModule, metaclass=RunArguments):
    """Base of the DataModules. A subclass sets `spec` in its constructor and defines `sample_batches()`; one that
    collects between updates also defines `batches()` and `forecast()`.

    Beside its own arguments every DataModule takes, by keyword, what a config has in `run:`, for use without one:
    `seed` (0), `env_steps` and `updates` (budgets; none by default), `eval_every` (10,000 env steps, or updates where
    there is no env; None: never) and `eval_episodes` (10).
    """

    spec: EnvSpec
    yields: ClassVar[type[Any]]  # what its batches are
    clock = "env_step"  # the public x-axis; "update" where there is no env
    default_eval_every: ClassVar[int] = 10_000
    updates_per_block = 1  # of a block that only samples

    def __init__(self) -> None:
        super().__init__()
        self.schedule = RunSchedule(clock=self.clock)
        self.seed = 0
        self.agent: Learner = None  # type: ignore[assignment]  # handed over when a fit begins
        self.skips = 0  # updates skipped for want of data since metrics were last emitted
        self.longest = 0  # env steps of the longest episode that ended by itself
        self.episodes: list[EpisodeStats] = []  # ended since the last time metrics were emitted
        self.pending: Any = None  # batches of a gather that a mark cut: the next block begins with them
        self._resumed = False  # the epoch that comes next has some of its blocks behind it
        self.exact = True  # all that a resumed fit needs was restored, or it began anew
        self._evaluating: Phase | None = None  # the phase whose hook asked for the evaluation that is due

    def configure(self, run: RunConfig, seed: int) -> None:
        """Sets budgets and seed; called once, before `setup`."""
        self.schedule.run = run
        self.seed = seed

    def check_model(self, module: Any) -> None:
        """Raises where these data cannot serve a module; called once both are there, before a run has a folder."""

    # ----------------------------------------------------------------------------------------- Lightning's own hooks
    def setup(self, stage: str) -> None:
        """Takes the Trainer's module as the learner."""
        trainer = self.trainer
        if trainer is not None and stage == "fit":
            if trainer.global_step == 0:
                self.begin_anew()  # as in Lightning; a Trainer that fits again goes on
            self.schedule.limits = limits_of(trainer)
            vars(trainer)["reload_dataloaders_every_n_epochs"] = 1  # every epoch is planned when it begins
        self.connect(self.agent if trainer is None else trainer.lightning_module, stage)

    def connect(self, module: Any, stage: str = "fit") -> None:
        """Opens what a stage needs of a learner and tells the module of itself; all that is needed without a Trainer:

        data.connect(module); module.training_step(data.next_block(), 0)
        """
        self.agent = module
        self.open(stage)
        if module is not None:
            module.attach(self)

    def begin_anew(self) -> None:
        """Forgets what an earlier fit has left: clocks, rows, generators."""
        self.schedule = RunSchedule(self.schedule.run, self.clock)
        self.skips, self.longest, self.episodes, self.pending, self._resumed = 0, 0, [], None, False

    def open(self, stage: str) -> None:
        """Makes what a stage ("fit", "validate", "test", "predict") needs: envs, buffers, generators."""

    def train_dataloader(self) -> BlockStream:
        done = self.schedule.blocks if self._resumed else 0
        self._resumed = False
        if not done:
            self.schedule.begin_epoch()
        return BlockStream(self, done)

    def val_dataloader(self) -> EvaluationRounds:
        fitting = self.trainer is not None and self.trainer.state.fn == "fit"
        return EvaluationRounds(
            self, -(-self.evaluation_episodes() // ROUND) if fitting and self._plays else 1
        )

    def test_dataloader(self) -> EvaluationRounds:
        return EvaluationRounds(self, 1)

    def predict_dataloader(self) -> EvaluationRounds:
        """One episode at a time."""
        return EvaluationRounds(self, self.evaluation_episodes() if self._plays else 1, 1)

    def state_dict(self) -> dict[str, Any]:
        """The clocks, for any checkpoint of Lightning's. What an exact resume needs besides is in `save`."""
        return {"schedule": self.schedule.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.schedule.load_state_dict(state_dict["schedule"])
        self._resumed, self.exact = self.schedule.blocks > 0, False  # until `load` brings the rest

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
        larger one goes on with.
        """
        clock = copy.copy(self.schedule)
        clock.phases = copy.deepcopy(self.schedule.phases)
        clock.run = dataclasses.replace(clock.run, env_steps=None, updates=None)
        clock.limits = clock.limits._replace(updates=None)
        if clock.target is None and clock.phases is None:
            return ENDLESS
        waiting = 0 if self.pending is None else len(self.pending[0])
        blocks = 0
        while not clock.epoch_over:
            if clock.phases is not None and (clock.phases.finished or blocks >= ENDLESS):
                self.schedule.open_end = not clock.phases.finished
                break
            if not waiting:
                steps, waiting = self.forecast(clock) if clock.phases is None else self._foresee(clock)
                clock.env_step += steps
            made = clock.updates_until_mark(waiting)
            clock.update += made
            waiting -= made
            blocks += 1
        return max(1, blocks)

    def forecast(self, clock: RunSchedule) -> tuple[int, int]:
        """Env steps and updates of the block that begins at these clocks, as far as they alone tell."""
        return 0, self.cut_updates(clock, clock.clip_updates(self.updates_per_block))

    def cut_updates(self, clock: RunSchedule, updates: int) -> int:
        """At most `updates`, where the data themselves end a block sooner."""
        return updates

    def _foresee(self, clock: RunSchedule) -> tuple[int, int]:
        """The same in a phase; its cursor moves along."""
        cursor = clock.phases
        assert cursor is not None
        hook, steps, updates, left = cursor.next_hook(), 0, 0, 0
        if hook.name == "collect":
            steps = self.forecast_collect(cursor.phase)
        elif hook.name == "evaluate":
            clock.evaluate_now = True
        else:
            wanted = cursor.room_for_updates(self.updates_in_a_row(hook)) - cursor.part
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
        schedule = self.schedule
        while not schedule.epoch_over and not schedule.finished:
            if self.pending is not None:
                waiting, self.pending = self.pending, None
                yield from self.unstack(waiting)
            else:
                schedule.begin_block()
                yield from (
                    self.batches() if schedule.phases is None else self._phase_batches(block, schedule.phases)
                )
            endless = schedule.target is None or schedule.open_end
            if not last or endless or schedule.at_mark or schedule.finished:
                return

    def batches(self) -> Iterator[Any]:
        """The batches of one block, collected and sampled as the algorithm usually wants it; this one samples only."""
        yield from self.sample_batches(self.schedule.clip_updates(self.updates_per_block))

    def sample_batches(self, updates: int) -> Iterator[Any]:
        """So many batches of what is there."""
        raise ConfigError(f"{type(self).__name__} has no batches to sample")
        yield

    def unstack(self, stacked: Any) -> Iterator[Any]:
        """The batches of one gather [U, ...]; where a mark ends the block, the rest waits for the next one."""
        updates = len(stacked[0])
        for u in range(updates):
            yield pick(stacked, u)
            if u + 1 < updates and self.schedule.at_mark:
                self.pending = rest(stacked, u + 1)
                return

    def count_update(self) -> None:
        """The one place where this clock moves; Lightning's own follows it."""
        self.schedule.update += 1
        if self.trainer is not None:
            set_global_step(self.trainer, self.schedule.update)

    def ready(self) -> bool:
        """Whether there is enough data for the batches that a phase wants."""
        return True

    def updates_in_a_row(self, hook: Hook) -> int:
        """Updates that a phase's hook makes each time."""
        return hook.count

    def collect_hook(self, phase: Phase, made: int) -> int:
        """Collects once, as the phase says, `made` env steps of it being there; returns those that are left to do."""
        raise ConfigError(f"phase '{phase.name}': {type(self).__name__} has nothing to collect from")

    def _phase_batches(self, block: Block, cursor: PhaseCursor) -> Iterator[Any]:
        """What the due hook of a phase does; the cursor moves on when it is done."""
        phase, hook, before = cursor.phase, cursor.next_hook(), self.schedule.env_step
        block.hook, block.phase = hook.name, PhaseContext(phase, cursor.progress)
        made, left, skipped = 0, 0, False
        if hook.name == "collect":
            left = self.collect_hook(phase, cursor.part)
        elif hook.name == "evaluate":
            self.schedule.evaluate_now, self._evaluating = True, phase
        elif self.ready():
            wanted = cursor.room_for_updates(self.updates_in_a_row(hook)) - cursor.part
            for batch in self.sample_batches(
                self.schedule.updates_until_mark(self.schedule.clip_updates(wanted))
            ):
                yield batch
                made += 1
            left = wanted - made
        elif phase.type == "offline" and cursor.starved > len(phase.hooks):
            raise ConfigError(
                f"phase '{phase.name}' is offline and its buffer '{phase.buffer}' will never hold enough rows; "
                f"collect first, or give it data"
            )
        else:
            skipped = True
            self.skips += 1
        cursor.advance(self.schedule.env_step - before, made, skipped, whole=left <= 0)

    def update_priorities(self, index: torch.Tensor, priorities: torch.Tensor) -> None:
        """Takes what the update rule says about the rows it saw, e.g. how wrong it was about each."""

    def update_latents(self, index: torch.Tensor, latents: torch.Tensor) -> None:
        """Takes the recurrent states that the update rule found in the rows it saw."""

    # ----------------------------------------------------------------------------------------------------- evaluation
    @property
    def _plays(self) -> bool:
        return self.agent is None or self.agent.evaluated_on == "episodes"

    @property
    def evaluates(self) -> bool:
        """Whether the validation that the Trainer has come to is an evaluation.

        A model's last weights are always weighed, and they are saved with it: where a callback only stops a fit that
        is to go on later, nothing is.
        """
        schedule, trainer = self.schedule, self.trainer
        if trainer is None or trainer.state.fn != "fit":
            return True
        if schedule.open_end and not (schedule.epoch_over or trainer.should_stop):
            return False
        if self._plays or trainer.sanity_checking:
            return schedule.run.eval_every is not None or schedule.evaluate_now
        due = schedule.epoch_over or (is_last_block(trainer) and schedule.run.eval_every is not None)
        return due or schedule.finished or schedule.late

    def evaluation_episodes(self) -> int:
        """Episodes of one evaluation that this rank plays."""
        wanted = self.schedule.run.eval_episodes
        if self.schedule.evaluate_now and self._evaluating is not None:
            wanted = self._evaluating.num_episodes or wanted
        return -(-wanted // self.world_size)

    def evaluation_round(self, first: int, episodes: int) -> EvaluationRound:
        """Episodes `first` to `first + episodes` of an evaluation at the clock of now."""
        trainer = self.trainer
        sanity = trainer is not None and trainer.sanity_checking
        fitting = trainer is not None and trainer.state.fn == "fit"
        name = f"eval/{self.schedule.now}" if fitting else "test"
        episodes = 1 if sanity else episodes
        limit = SANITY_STEPS if sanity else self.schedule.run.eval_max_steps
        envs = self.eval_envs(episodes) if self._plays else None
        report = (lambda played: None) if sanity or not fitting else self.note_episodes
        seed = derive(self.seed, name, self.rank) + first
        return EvaluationRound(self, envs, episodes, seed, limit, self.longest, self.scores, report)

    def note_episodes(self, played: list[EpisodeStats]) -> None:
        """An evaluation shows how long episodes can be."""
        self.longest = max([self.longest, *(episode.length for episode in played if not episode.cut)])

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

    # --------------------------------------------------------------------------------------------------------- saving
    def save(self, store: SegmentStore) -> dict[str, Any]:
        """All that this rank's data needs to go on exactly; large rows go to the store."""
        episodes = [tuple(e) for e in self.episodes]
        counts = {"skips": self.skips, "longest": self.longest}
        pending = (
            None if self.pending is None else [type(self.pending).__name__, dict(self.pending._asdict())]
        )
        return {"schedule": self.schedule.state_dict(), "episodes": episodes, "pending": pending, **counts}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.exact = True
        self.schedule.load_state_dict(state["schedule"])
        self.episodes = [EpisodeStats(*e) for e in state["episodes"]]
        self.skips = state["skips"]
        self.longest = int(state["longest"])
        self.pending = (
            None if state["pending"] is None else GATHERED[state["pending"][0]](**state["pending"][1])
        )

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
