"""The clocks of a run, its budgets and cadences: a plain object that the DataModule owns, asks and saves."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rl_lightning.clock.phases import PhaseCursor
from rl_lightning.errors import ConfigError


@dataclass
class RunConfig:
    """Budgets and cadences, the same for every algorithm. Whichever budget is reached first ends the run.

    Cadences (`eval_every`, `save_every`, `milestone_every`) count env steps, or updates where a stage has no env.

    Args:
        name: Folder of the run below lightning_logs; by default the config's name and a number.
        tags: Words to find the run by.
        env_steps: Budget of environment steps, over all envs and ranks, action repeat counted.
        updates: Budget of updates (one round of the update rule).
        eval_every: Evaluate each time the clock passes a multiple of this; never if null.
        eval_episodes: Episodes of one evaluation.
        eval_max_steps: Env steps after which an evaluation cuts an episode. By default only envs without a time limit
            are cut: after the larger of 10,000 steps and 20 times the longest finished episode.
        final_episodes: Episodes, on seeds of their own, of the evaluation that closes a finished policy: a row of
            results.csv, and its scores in the run's record. None if null.
        save_every: Save a checkpoint each time the clock passes a multiple of this; at evaluations only if null.
        save_minutes: Also save when this many minutes have passed since the last save.
        milestone_every: Keep a numbered milestone each time the clock passes a multiple of this.
        max_hours: Wall-clock budget in hours; counted anew after a resume. trainer.max_time takes DD:HH:MM:SS.
    """

    name: str | None = None
    tags: list[str] = field(default_factory=list)
    env_steps: int | None = None
    updates: int | None = None
    eval_every: int | None = None
    eval_episodes: int = 10
    eval_max_steps: int | None = None
    final_episodes: int | None = None
    save_every: int | None = None
    save_minutes: float | None = 10.0
    milestone_every: int | None = None
    max_hours: float | None = None

    def __post_init__(self) -> None:
        for key in (
            "env_steps",
            "updates",
            "eval_every",
            "eval_episodes",
            "eval_max_steps",
            "final_episodes",
            "save_every",
            "save_minutes",
            "milestone_every",
            "max_hours",
        ):
            value = getattr(self, key)
            if value is not None and value <= 0:
                raise ConfigError(f"run.{key} is {value}; it must be positive, or null for none")

    @property
    def limited(self) -> bool:
        """Whether there is any budget."""
        return any(budget is not None for budget in (self.env_steps, self.updates, self.max_hours))

    def max_seconds(self) -> float:
        """The wall-clock budget in seconds, infinite if there is none."""
        return math.inf if self.max_hours is None else self.max_hours * 3600


def crossed_multiple(before: int, after: int, every: int | None) -> bool:
    """True if a multiple of `every` lies in (before, after]: a clock that moves in strides cannot jump over it."""
    return bool(every) and after // every > before // every  # type: ignore[operator]


class Limits(NamedTuple):
    """What a Trainer's own arguments and callbacks say of the updates.

    Args:
        updates: Its `max_steps`.
        epochs: Its `max_epochs`.
        marks: Intervals of updates at whose multiples a callback must be called.
    """

    updates: int | None = None
    epochs: int | None = None
    marks: tuple[int, ...] = ()


class RunClock:
    """The two clocks, how far the run is, and what is due.

    Args:
        run: Budgets and cadences.
        clock_name: The public x-axis, "env_step", or "update" for stages without an env.
    """

    def __init__(self, run: RunConfig | None = None, clock_name: str = "env_step") -> None:
        assert clock_name in ("env_step", "update"), clock_name
        self.run = run or RunConfig()
        self.clock_name = clock_name
        self.env_step = 0
        self.update = 0
        self.phases: PhaseCursor | None = None
        self.log_every: int | None = None  # interval at which metrics are emitted, told by who emits them
        self.limits = Limits()  # of the Trainer, told when a fit begins
        self.target: int | None = (
            None  # the clock at which this epoch ends with an evaluation; None: it has none
        )
        self.open_end = False  # this epoch ends after a number of blocks, short of its evaluation
        self.blocks = 0  # blocks of this epoch that were handed out; 0 again once it is over
        self.evaluate_now = False  # a phase asked for an evaluation at the end of this block
        self.evaluated_at: int | None = None  # the clock of the newest evaluation
        self.pass_updates: int | None = (
            None  # updates of one pass over the data, where evaluations go by passes at first
        )
        self.converged = False  # the model says that nothing more is to be gained
        self.progress = 0.0  # fraction of the budget that was spent when the current block began
        self.seconds = 0.0  # since training began or was resumed, reported if there is a budget of time

    @property
    def now(self) -> int:
        return self.env_step if self.clock_name == "env_step" else self.update

    @property
    def fraction(self) -> float:
        """Fraction of the budget spent so far, in [0, 1]: of steps, updates, epochs, or of time where that is all."""
        run, limits = self.run, self.limits
        span = limits.epochs * run.eval_every if limits.epochs and run.eval_every else None
        pairs = [
            (self.env_step, run.env_steps),
            (self.update, run.updates),
            (self.update, limits.updates),
            (self.now, span),
        ]
        spent = [done / budget for done, budget in pairs if budget]
        return min(1.0, max(spent or [self.seconds / self.run.max_seconds()]))

    @property
    def is_finished(self) -> bool:
        """A budget of the run's own is spent, its phases are over, or nothing more is to be gained."""
        return self.converged or self.spent or (self.phases is not None and self.phases.finished)

    @property
    def spent(self) -> bool:
        steps, updates = self.run.env_steps, self.run.updates
        return bool(steps and self.env_step >= steps) or bool(updates and self.update >= updates)

    @property
    def time_exceeded(self) -> bool:
        """The time is over, whatever is left of the other budgets."""
        return self.seconds >= self.run.max_seconds()

    @property
    def reason(self) -> str:
        """Why a finished run is finished."""
        if self.run.env_steps and self.env_step >= self.run.env_steps:
            return f"{self.run.env_steps} env steps done"
        if self.run.updates and self.update >= self.run.updates:
            return f"{self.run.updates} updates done"
        if self.converged:
            return "converged"
        return "all phases done" if self.phases is not None and self.phases.finished else "not finished"

    def begin_block(self) -> None:
        """Freezes `progress`: schedules see the share before this block's steps; the first lr is the full lr."""
        self.progress = self.fraction

    def early_looks(self) -> list[int]:
        """Updates at which a model is looked at before the first regular evaluation: 1, 2, 3, 4, 6, 8, ... passes.

        A small data set is learned by heart in a few of them, long before `eval_every`.
        """
        every, once = self.run.eval_every, self.pass_updates
        if not every or not once:
            return []
        passes = [1, *(factor * 2**power for power in range(1, 40) for factor in (1, 1.5))]
        return [mark for count in passes if (mark := round(count * once)) < every]

    def begin_epoch(self) -> None:
        """An epoch is the stretch up to the next evaluation: sets the clock at which that is due."""
        marks = [mark for mark in self.early_looks() if mark > self.now]
        if self.run.eval_every:
            marks.append((self.now // self.run.eval_every + 1) * self.run.eval_every)
        if self.pass_updates and self.evaluated_at is None:
            marks.append(self.now)  # what it is worth untrained: where overfitting is told from
        self.target = min(marks) if marks else None
        self.evaluate_now, self.open_end, self.blocks = False, False, 0

    def end_epoch(self) -> None:
        """Its evaluation is made, or was left out: what is saved from here on begins with the next epoch."""
        self.evaluate_now, self.blocks = False, 0

    @property
    def epoch_over(self) -> bool:
        return self.evaluate_now or (self.target is not None and self.now >= self.target)

    def updates_until_mark(self, updates: int) -> int:
        """At most `updates`, and not past a point at which the Trainer must look: its limits, files, budgets."""
        ends = [budget for budget in (self.run.updates, self.limits.updates) if budget]
        ends += [(self.update // every + 1) * every for every in self.limits.marks]
        return max(0, min([updates, *(end - self.update for end in ends)]))

    @property
    def at_mark(self) -> bool:
        """Asked after an update: a block must end here."""
        budgets = (self.run.updates, self.limits.updates)
        return any(budget and self.update >= budget for budget in budgets) or any(
            self.update % every == 0 for every in self.limits.marks
        )

    def clip_updates(self, updates: int) -> int:
        """At most `updates`, and not past the next cadence point, where updates are the clock.

        Budgets do not count: a run with a larger one must go the same way.
        """
        if self.clock_name == "update":
            for every in (self.run.eval_every, self.run.save_every, self.run.milestone_every):
                if every:
                    updates = min(updates, every - self.update % every)
            ahead = [mark - self.update for mark in self.early_looks() if mark > self.update]
            updates = min([updates, *ahead])
        return max(0, updates)

    def clip_steps(self, steps: int, wide: int) -> int:
        """At most `steps` vector steps of `wide` env steps each, and none that begins past the budget."""
        if self.run.env_steps:
            steps = min(steps, math.ceil((self.run.env_steps - self.env_step) / wide))
        return max(1, steps)

    def blocks_until_due(self, wide: int, most: int) -> int:
        """Turns of `wide` env steps and one update each up to the next point at which something is due, at most `most`.

        A function of the clocks alone: a run that is resumed, or has a larger budget, passes the same points.
        """
        run = self.run
        cadences = (most * wide, run.eval_every, run.save_every, run.milestone_every, self.log_every)
        left = min(every - self.env_step % every for every in cadences if every)
        if run.env_steps:
            left = min(left, run.env_steps - self.env_step)
        return max(1, self.updates_until_mark(math.ceil(left / wide)))

    def state_dict(self) -> dict[str, Any]:
        phases = None if self.phases is None else self.phases.state_dict()
        clocks = {"env_step": self.env_step, "update": self.update, "progress": self.progress}
        names = ("target", "blocks", "evaluate_now", "evaluated_at", "converged")
        return {**clocks, **{name: getattr(self, name) for name in names}, "phases": phases}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.env_step, self.update, self.progress = state["env_step"], state["update"], state["progress"]
        for name in ("target", "blocks", "evaluate_now", "evaluated_at", "converged"):
            setattr(self, name, state[name])
        if self.phases is not None and state["phases"] is not None:
            self.phases.load_state_dict(state["phases"])
