"""One line that says how far, how fast, how well, and how long still."""

from __future__ import annotations

import sys
import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from rl_lightning.callbacks.evaluation_history import EvaluationHistory
from rl_lightning.trainer.access import clock_of
from rl_lightning.trainer.metrics_logger import MetricsLogger

BAR = 24
PLAIN_EVERY = 15.0  # seconds between lines where there is no terminal


def short(number: float) -> str:
    """1234 -> 1.2k"""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def clock_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


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

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        now = time.monotonic()
        if now - self._shown < (0.2 if self.live else PLAIN_EVERY) or not trainer.is_global_zero:
            return
        self._shown = now
        line = self.line(clock_of(trainer))
        if self.live:
            self.live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self.console.print(line, highlight=False)

    def line(self, schedule: Any) -> str:
        still, self._seen = schedule.now == self._seen, schedule.now
        if still and schedule.clock_name == "env_step":
            return self.offline_line(schedule)
        run, now, elapsed = schedule.run, schedule.now, time.monotonic() - self._began
        budget = run.env_steps if schedule.clock_name == "env_step" else run.updates
        fraction = schedule.fraction
        full = int(BAR * fraction)
        unit = "steps/s" if schedule.clock_name == "env_step" else "updates/s"
        parts = [
            f"{self.title} {'━' * full}{'╌' * (BAR - full)}",
            f"{schedule.clock_name} {short(now)}" + (f"/{short(budget)}" if budget else ""),
            f"{short((now - self._start) / max(elapsed, 1e-9))} {unit}",
        ]
        if "collect/return" in self.metrics_logger.latest:
            parts.append(f"return {self.metrics_logger.latest['collect/return']:.4g}")
        elif "train/loss" in self.metrics_logger.latest:
            parts.append(f"loss {self.metrics_logger.latest['train/loss']:.4g}")
        if self.evaluation.last is not None:
            parts.append(f"eval {self.evaluation.last:.4g}")
        share = (now - self._start) / max(1, (budget or 0) - self._start) if budget else fraction
        if share > 0:
            parts.append(f"{clock_time(elapsed * (1 - share) / share)} left")
        return " · ".join(parts)

    def offline_line(self, schedule: Any) -> str:
        """While no env steps, updates are what moves: those of the phase, if it has so many."""
        cursor, elapsed = schedule.phases, time.monotonic() - self._began
        length = None if cursor is None else cursor.phase.updates
        done = schedule.update if length is None else cursor.updates
        full = int(BAR * min(1.0, done / length)) if length else 0
        parts = [
            f"{self.title} {'━' * full}{'╌' * (BAR - full)}",
            f"update {short(done)}" + (f"/{short(length)}" if length else ""),
            f"{short((schedule.update - self._updates) / max(elapsed, 1e-9))} updates/s",
        ]
        if cursor is not None:
            parts.insert(1, cursor.phase.name)
        if "train/loss" in self.metrics_logger.latest:
            parts.append(f"loss {self.metrics_logger.latest['train/loss']:.4g}")
        return " · ".join(parts)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self.live:
            self.live.stop()
            self.live = None
