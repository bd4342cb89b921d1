"""How long a run would take here: its first seconds; nothing is left behind, and no name is taken."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from rl_lightning.callbacks import Phases, RunCheckpoint
from rl_lightning.errors import RLError
from rl_lightning.io.text import clock_time, short
from rl_lightning.runs.config.build import RLCLI
from rl_lightning.trainer.access import clock_of

SECONDS = 3.0  # of learning
PATIENCE = 4.0  # times as long in all: then even a block that has not ended is left
FEW_STEPS = 500  # random ones before learning, in place of all of them


class TimeUp(BaseException):
    """The probe is over. No Exception: it may be raised in an env's step, where the user's code catches those."""


class ClockSample(NamedTuple):
    """The clocks at the end of a block."""

    seconds: float
    env_step: int
    update: int


class ThroughputProbe(Callback):
    """Notes the clocks after every block, and stops once it has seen enough of learning.

    Args:
        seconds: How long to look.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ticks: list[ClockSample] = []
        self.clock: Any = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.clock = clock_of(trainer)
        self.note()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        self.note()
        learned = [tick for tick in self.ticks if tick.update]
        if len(learned) > 1 and learned[-1].seconds - learned[0].seconds >= self.seconds:
            trainer.should_stop = True

    def note(self) -> None:
        if self.clock is not None:
            self.ticks.append(ClockSample(time.perf_counter(), self.clock.env_step, self.clock.update))


class Throughput(NamedTuple):
    """Rates per second; of what was not seen, None."""

    env_steps: float | None
    updates: float | None
    random: float | None  # env steps before learning starts
    learns: bool  # whether updates were seen at all


class Estimate(NamedTuple):
    """The time that a run needs; null where it could not be told, with the reason in the line."""

    seconds: float | None
    line: str


def estimate(cli: RLCLI, seconds: float | None = None, folder: Path | None = None) -> Estimate:
    """From a probe of a few seconds.

    Args:
        cli: Parsed.
        seconds: How long to look; null: SECONDS.
        folder: Where checkpoints of the probe go, for a stage whose artifact is needed; null: nowhere.
    """
    settings = cli.config.trainer
    if settings.devices not in (1, "1", "auto") or (settings.num_nodes or 1) > 1:
        return Estimate(None, "not estimated: several processes are measured by training")
    arguments = cli.data_arguments()
    few = max(FEW_STEPS, 2 * int(arguments.get("batch_size") or 0))
    starts = int(arguments.get("learning_starts") or 0)
    if starts:
        arguments["learning_starts"] = min(starts, few)
    if arguments.get("pretrain"):
        arguments["pretrain"] = 1  # what is made at once before the first turn says nothing about the turns
    try:
        cli.build()
        ticks = _probe(cli, SECONDS if seconds is None else seconds, folder)
    except RLError as error:
        return Estimate(None, f"not estimated: {str(error).splitlines()[0]}")
    pace, run = measured(ticks), cli.config_init.run
    needed = expected(pace, run.env_steps, run.updates, starts)
    shown = None if needed is None else min(needed, run.max_seconds())
    return Estimate(shown, line_of(pace, needed, run.max_seconds()))


def _probe(cli: RLCLI, seconds: float, folder: Path | None = None) -> list[ClockSample]:
    settings, timed = cli.config_init.trainer, ThroughputProbe(seconds)
    own = settings.callbacks or []
    settings.callbacks = [
        item for item in (own if isinstance(own, list) else [own]) if isinstance(item, Phases)
    ]
    # What is evaluated on rows has to be: it may not begin, or not go on, without.
    unseen: dict[str, Any] = {} if cli.model.evaluated_on == "rows" else {"limit_val_batches": 0}
    saving = [] if folder is None else [RunCheckpoint(str(folder / "checkpoints"))]
    trainer = cli.make_trainer([timed, *saving], [], logger=False, **unseen)
    try:
        with time_limit(PATIENCE * seconds):
            trainer.fit(cli.model, datamodule=cli.datamodule)
    except TimeUp:
        timed.note()
    except SystemExit:  # how Lightning ends a process at Ctrl-C
        raise KeyboardInterrupt from None
    finally:
        cli.datamodule.teardown("fit")
    return timed.ticks


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeUp out of whatever lasts longer; on the main thread alone, where signals arrive."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: Any) -> None:
        raise TimeUp

    interrupts, before = signal.getsignal(signal.SIGINT), signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.signal(signal.SIGINT, interrupts)  # which Lightning ignores once it has seen one


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
        return f"not estimated: the first {PATIENCE * SECONDS:.0f} seconds are over before a first block is"
    rates = [
        f"{short(r)} {unit}/s" for r, unit in ((pace.env_steps, "env steps"), (pace.updates, "updates")) if r
    ]
    shown = min(seconds, at_most) if math.isfinite(at_most) else seconds
    note = "" if pace.learns else "; only collecting was seen, learning is slower"
    return f"about {clock_time(shown)} here ({', '.join(rates)} in a probe, evaluations not counted{note})"
