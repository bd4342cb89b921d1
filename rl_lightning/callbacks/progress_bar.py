"""One line that says how far, how fast, how well, and how long still."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from rl_lightning.callbacks.evaluation_history import EvaluationHistory
from rl_lightning.io.text import clock_time, number, score
from rl_lightning.trainer.access import clock_of
from rl_lightning.trainer.metrics_logger import MetricsLogger

BAR, LEAST_BAR = 24, 6
LEAST_TITLE = 6
PLAIN_EVERY = 15.0  # seconds between lines where there is no terminal


def short(amount: float) -> str:
    """1234 -> 1.2k"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(amount) >= 0.9995 * size:
            return f"{amount / size:.3g}{unit}"
    return f"{amount:.3g}"


class Fact(NamedTuple):
    """A part of the line.

    Args:
        text: What it says.
        style: How it looks where there are colours.
        spare: Left out where the line is narrow.
    """

    text: str
    style: str = ""
    spare: bool = False


def fitted(title: str, fraction: float | None, facts: Sequence[Fact], width: int) -> str:
    """The line as wide as the terminal, with its styles: the bar shrinks first, then the title; facts stay."""
    if _length(facts) + LEAST_TITLE + 1 > width:
        facts = [fact for fact in facts if not fact.spare]
    room = width - _length(facts) - 1
    bar = max(0, min(BAR, room - len(title) - 1))
    bar = bar if bar >= LEAST_BAR else LEAST_BAR if room > LEAST_BAR + LEAST_TITLE else 0
    bar = bar if fraction is not None else 0
    most = max(0, room - bar - (bar > 0))
    title = title if len(title) <= most else title[: most - 1] + "…" if most >= LEAST_TITLE else ""
    full = int(bar * (fraction or 0.0))
    bar_text = f"[cyan]{'━' * full}[/][dim]{'╌' * (bar - full)}[/]" if bar else ""
    head = " ".join(filter(None, (escape(title), bar_text)))
    styled = [f"[{fact.style}]{escape(fact.text)}[/]" if fact.style else escape(fact.text) for fact in facts]
    return " · ".join(filter(None, (head, *styled)))


def _length(facts: Sequence[Fact]) -> int:
    return sum(len(fact.text) + 3 for fact in facts)


class RunProgressBar(Callback):
    """A bar on a terminal, a line now and then elsewhere.

    Args:
        metrics_logger: Knows the last training return.
        evaluation: Knows the last evaluation.
        title: What stands before the bar.
    """

    def __init__(self, metrics_logger: MetricsLogger, evaluation: EvaluationHistory, title: str = "") -> None:
        self.metrics_logger, self.evaluation, self.title = metrics_logger, evaluation, title
        self.console = Console(file=sys.stderr)
        self.live: Live | None = None
        self._shown = self._began = 0.0
        self._start = 0
        self._updates = 0  # when training began
        self._seen = -1  # clock of the line before

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began = self._shown = time.monotonic()
        self._start = clock_of(trainer).now
        self._updates, self._seen = clock_of(trainer).update, -1
        if trainer.is_global_zero and self.console.is_terminal:
            self.live = Live(console=self.console, auto_refresh=False, transient=True)
            self.live.start()
            self._show(clock_of(trainer))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        now = time.monotonic()
        if now - self._shown < (0.2 if self.live else PLAIN_EVERY) or not trainer.is_global_zero:
            return
        self._shown = now
        self._show(clock_of(trainer))

    def _show(self, schedule: Any) -> None:
        fraction, facts = self.state(schedule)
        if self.live:
            line = fitted(self.title, fraction, facts, self.console.width)
            self.live.update(Text.from_markup(line, overflow="ellipsis"), refresh=True)
        else:
            percent = "" if fraction is None else f"{fraction:.0%}"
            words = [self.title, percent, *(fact.text for fact in facts)]
            self.console.print(Text(" · ".join(filter(None, words))), soft_wrap=True)

    def state(self, schedule: Any) -> tuple[float | None, list[Fact]]:
        """How far the run is, and what there is to say of it."""
        still, self._seen = schedule.now == self._seen, schedule.now
        if still and schedule.clock_name == "env_step":
            return self.offline_state(schedule)
        run, now, elapsed = schedule.run, schedule.now, time.monotonic() - self._began
        budget = run.env_steps if schedule.clock_name == "env_step" else run.updates
        unit = "steps/s" if schedule.clock_name == "env_step" else "updates/s"
        facts = [
            Fact(f"{schedule.clock_name} {short(now)}" + (f"/{short(budget)}" if budget else "")),
            Fact(f"{short((now - self._start) / max(elapsed, 1e-9))} {unit}", spare=True),
            *self._scores(),
        ]
        share = (now - self._start) / max(1, (budget or 0) - self._start) if budget else schedule.fraction
        if share > 0:
            facts.append(Fact(f"{clock_time(elapsed * (1 - share) / share)} left"))
        return schedule.fraction, facts

    def _scores(self) -> list[Fact]:
        facts = []
        if "collect/return" in self.metrics_logger.latest:
            facts.append(Fact(f"return {score(self.metrics_logger.latest['collect/return'])}"))
        elif "train/loss" in self.metrics_logger.latest:
            facts.append(Fact(f"loss {number(self.metrics_logger.latest['train/loss'])}"))
        if self.evaluation.last is not None:
            facts.append(Fact(f"eval {score(self.evaluation.last)}", "bold"))
        return facts

    def offline_state(self, schedule: Any) -> tuple[float | None, list[Fact]]:
        """While no env steps, updates are what moves: those of the phase, if it has so many."""
        cursor, elapsed = schedule.phases, time.monotonic() - self._began
        length = None if cursor is None else cursor.phase.updates
        done = schedule.update if length is None else cursor.updates
        facts = [Fact(cursor.phase.name)] if cursor is not None else []
        facts += [
            Fact(f"update {short(done)}" + (f"/{short(length)}" if length else "")),
            Fact(f"{short((schedule.update - self._updates) / max(elapsed, 1e-9))} updates/s", spare=True),
        ]
        if "train/loss" in self.metrics_logger.latest:
            facts.append(Fact(f"loss {number(self.metrics_logger.latest['train/loss'])}"))
        return (min(1.0, done / length) if length else None), facts

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self.live:
            self.live.stop()
            self.live = None
