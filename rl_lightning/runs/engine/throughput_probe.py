"""How long a run would take here: its first seconds, in memory; nothing is written, and no name is taken."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.callbacks import Phases, RunController
from rl_lightning.errors import RLError
from rl_lightning.io.text import clock_time, short
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.trainer.access import clock_of

SECONDS = 3.0
FEW_STEPS = 500  # random ones before learning, in place of all of them


class ClockSample(NamedTuple):
    """The clocks at the end of a block."""

    seconds: float
    env_step: int
    update: int


class ThroughputProbe(Callback):
    """Notes the clocks after every block, and stops once it has seen enough of learning.

    Args:
        seconds: How long to look; a block that takes longer is waited for.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ticks: list[ClockSample] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.ticks = [ClockSample(time.perf_counter(), 0, 0)]

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        schedule = clock_of(trainer)
        self.ticks.append(ClockSample(time.perf_counter(), schedule.env_step, schedule.update))
        learned = [tick for tick in self.ticks if tick.update]
        enough = len(learned) > 1 and learned[-1].seconds - learned[0].seconds >= self.seconds
        if enough or self.ticks[-1].seconds - self.ticks[0].seconds >= 10 * self.seconds:
            trainer.should_stop = True


class Throughput(NamedTuple):
    """Rates per second; of what was not seen, None."""

    env_steps: float | None
    updates: float | None
    random: float | None  # env steps before learning starts
    learns: bool  # whether updates were seen at all


def estimate(cli: RLCLI) -> str:
    """One line about the time that a run needs, from a probe of a few seconds; why there is none otherwise."""
    settings = cli.config.trainer
    if settings.devices not in (1, "1", "auto") or (settings.num_nodes or 1) > 1:
        return "not estimated: several processes are measured by training"
    arguments = cli.data_arguments()
    few = max(FEW_STEPS, 2 * int(arguments.get("batch_size") or 0))
    starts = 0
    for key in ("learning_starts",):
        if arguments.get(key):
            starts = int(arguments[key])
            arguments[key] = min(starts, few)
    if arguments.get("pretrain"):
        arguments["pretrain"] = 1  # what is made at once before the first turn says nothing about the turns
    try:
        cli.build()
        ticks = _probe(cli, SECONDS)
    except RLError as error:
        return f"not estimated: {str(error).splitlines()[0]}"
    pace, run = measured(ticks), cli.config_init.run
    return line_of(pace, expected(pace, run.env_steps, run.updates, starts), run.max_seconds())


def _probe(cli: RLCLI, seconds: float) -> list[ClockSample]:
    settings, timed = cli.config_init.trainer, ThroughputProbe(seconds)
    own = settings.callbacks or []
    settings.callbacks = [
        item for item in (own if isinstance(own, list) else [own]) if isinstance(item, Phases)
    ]
    trainer = cli.make_trainer([RunController(), timed], [], logger=False, limit_val_batches=0)
    try:
        trainer.fit(cli.model, datamodule=cli.datamodule)
    finally:
        cli.datamodule.teardown("fit")
    return timed.ticks


def measured(ticks: list[ClockSample]) -> Throughput:
    """Rates while learning, without the first block, which warms up; of a single block with it."""
    learned = [tick for tick in ticks if tick.update]
    before = ticks[: len(ticks) - len(learned)]
    window = learned if len(learned) > 1 else [*before[-1:], *learned] if learned else before
    if len(window) < 2:
        return Throughput(None, None, None, False)
    steps, updates = _rates(window)
    return Throughput(steps, updates, _rates(before)[0] if len(before) > 1 else None, bool(learned))


def _rates(window: list[ClockSample]) -> tuple[float | None, float | None]:
    first, last = window[0], window[-1]
    took = max(last.seconds - first.seconds, 1e-9)
    return (last.env_step - first.env_step) / took or None, (last.update - first.update) / took or None


def expected(pace: Throughput, env_steps: int | None, updates: int | None, starts: int) -> float | None:
    """Seconds until the first budget is spent, after `starts` random env steps."""
    starts = min(starts, env_steps or starts)
    before = starts / pace.random if pace.random else 0.0
    later = [
        budget / rate
        for budget, rate in (((env_steps or 0) - starts, pace.env_steps), (updates, pace.updates))
        if budget and budget > 0 and rate
    ]
    return before + min(later) if later else before or None


def line_of(pace: Throughput, seconds: float | None, at_most: float) -> str:
    if seconds is None:
        return "not estimated: the budget does not move in the first seconds"
    rates = [
        f"{short(r)} {unit}/s" for r, unit in ((pace.env_steps, "env steps"), (pace.updates, "updates")) if r
    ]
    shown = min(seconds, at_most) if math.isfinite(at_most) else seconds
    note = "" if pace.learns else "; only collecting was seen, learning is slower"
    return f"about {clock_time(shown)} here ({', '.join(rates)} in a probe, evaluations not counted{note})"
