"""Alerts: conditions on metrics that are reported to whoever should know, and may end the run."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only

from rl_lightning import distributed
from rl_lightning.errors import ConfigError, DivergedError
from rl_lightning.io.expressions import WINDOW, Expression
from rl_lightning.loggers.alert_sender import AlertSender
from rl_lightning.loggers.metrics_csv import MetricsCSVLogger, RowLogger
from rl_lightning.trainer.access import clock_of

BUILT_IN = ("nan_loss", "slow_progress", "memory_high", "plateau")
SLOW_FOR = 3  # emissions in a row below the speed: a single one may be an evaluation


@dataclass
class AlertRule:
    """One condition.

    Args:
        name: What the alert is called.
        when: A condition on metrics, e.g. `train/approx_kl > 0.1 and mean(eval/return, 5) < 200`.
        consecutive: How often in a row it must hold.
        stop: Whether it ends the run.
    """

    name: str
    when: str
    consecutive: int = 1
    stop: bool = False


class MetricHistory(RowLogger):
    """Hears every metric that the run emits.

    Args:
        history: Where the values of each metric are kept.
    """

    def __init__(self, history: dict[str, deque[float]]) -> None:
        super().__init__()
        self.history = history
        self.fresh: list[dict[str, float]] = []

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {str(key): float(value) for key, value in metrics.items()}
        for key, value in row.items():
            self.history.setdefault(key, deque(maxlen=WINDOW)).append(value)
        self.fresh.append(row)


class Alerts(Callback):
    """Tells when something is wrong with a run: on the terminal and in alerts.jsonl, by W&B, or by a command.

    Args:
        nan_loss: A metric below train/ that is not finite.
        slow_progress: Fewer steps (updates, where there is no env) per second than this; null: off.
        memory_high: Fraction of the machine's memory in use; null: off.
        plateau_patience: Evaluations without a better one; null: off.
        plateau_min_delta: How much better counts.
        rules: Conditions of your own.
        stop_on: Names of alerts that end the run, besides rules with `stop_on: true`.
        notify: Where to: log (terminal and alerts.jsonl) and wandb.
        command: A program and its arguments, started for each alert without a shell; {name}, {text} and {run} are
            filled in. It must be named in the environment variable RL_ALERT_COMMANDS.
        cooldown: Seconds before the same alert is sent again.
    """

    def __init__(
        self,
        nan_loss: bool = True,
        slow_progress: float | None = None,
        memory_high: float | None = 0.95,
        plateau_patience: int | None = None,
        plateau_min_delta: float = 0.0,
        rules: list[AlertRule] | None = None,
        stop_on: list[str] | None = None,
        notify: list[str] | None = None,
        command: list[str] | None = None,
        cooldown: float = 600.0,
    ) -> None:
        self.nan_loss, self.slow_progress, self.memory_high = nan_loss, slow_progress, memory_high
        self.plateau_patience, self.plateau_min_delta = plateau_patience, plateau_min_delta
        self.rules = [(rule, Expression(rule.when)) for rule in rules or []]
        self.stop_on = set(stop_on or []) | {rule.name for rule, _ in self.rules if rule.stop}
        self.messenger = AlertSender(notify if notify is not None else ["log", "wandb"], command)
        self.cooldown = cooldown
        self._check()
        self.history: dict[str, deque[float]] = {}
        self.listener = MetricHistory(self.history)
        self.best: float | None = None
        self.since_best = 0
        self.streak: dict[str, int] = {}
        self._told: dict[str, float] = {}

    def _check(self) -> None:
        names = [rule.name for rule, _ in self.rules]
        for name in names:
            if not name or not name.isprintable() or len(name) > 64:
                raise ConfigError(
                    f"Alerts: {name!r:.40} is not a name for a rule: 1 to 64 printable characters"
                )
            if name in BUILT_IN or names.count(name) > 1:
                raise ConfigError(f"Alerts: there are two alerts called '{name}'")
        unknown = self.stop_on - set(names) - set(BUILT_IN)
        if unknown:
            known = ", ".join([*BUILT_IN, *names])
            raise ConfigError(f"Alerts.stop: no alert is called '{min(unknown)}'; there are {known}")
        if self.memory_high is not None and not 0 < self.memory_high <= 1:
            raise ConfigError(f"Alerts.memory_high is {self.memory_high}; it is a share between 0 and 1")
        if any(rule.consecutive < 1 for rule, _ in self.rules) or (
            self.plateau_patience is not None and self.plateau_patience < 1
        ):
            raise ConfigError("Alerts: times and plateau must be at least 1")

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        if self.listener not in trainer.loggers:
            trainer.loggers = [*trainer.loggers, self.listener]
        file = next((logger for logger in trainer.loggers if isinstance(logger, MetricsCSVLogger)), None)
        self.messenger.open(file.path.parent if file else Path.cwd(), trainer.loggers)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """Looks at what was emitted up to the block before this one."""
        if distributed.from_rank_zero(self._look(trainer)):
            trainer.should_stop = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._look(trainer)
        self.messenger.close()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self.nan_loss and isinstance(exception, DivergedError):
            self._tell("nan_loss", str(exception))
        self.messenger.close()

    def _look(self, trainer: Trainer) -> bool:
        """Tells every alert that the new metrics raise; whether one of them ends the run."""
        rows, self.listener.fresh = self.listener.fresh, []
        stops = False
        for row in rows:
            for name, text in self._raised(row, trainer):
                self._tell(name, text)
                stops |= name in self.stop_on
        return stops

    def _raised(self, row: dict[str, float], trainer: Trainer) -> list[tuple[str, str]]:
        alerts = [*self._nan(row), *self._slow(row, trainer), *self._memory(row), *self._plateau(row)]
        for rule, condition in self.rules:
            if any(name in row for name in condition.names) or not condition.names:
                holds = condition.holds(self.history)
                if self._in_a_row(f"rule/{rule.name}", holds) >= rule.consecutive:
                    values = ", ".join(
                        f"{n} = {self.history[n][-1]:.6g}" for n in condition.names if n in self.history
                    )
                    alerts.append((rule.name, f"{rule.when} ({values})"))
        return alerts

    def _in_a_row(self, key: str, holds: bool) -> int:
        self.streak[key] = self.streak.get(key, 0) + 1 if holds else 0
        return self.streak[key]

    def _nan(self, row: dict[str, float]) -> list[tuple[str, str]]:
        bad = [key for key, value in row.items() if key.startswith("train/") and not math.isfinite(value)]
        return [("nan_loss", f"{bad[0]} is {row[bad[0]]}")] if self.nan_loss and bad else []

    def _slow(self, row: dict[str, float], trainer: Trainer) -> list[tuple[str, str]]:
        clock = clock_of(trainer).clock_name
        speed = row.get(f"time/{clock}s_per_s")
        if self.slow_progress is None or speed is None:
            return []
        if self._in_a_row("slow", speed < self.slow_progress) < SLOW_FOR:
            return []
        return [("slow_progress", f"{speed:.3g} {clock}s per second, less than {self.slow_progress:g}")]

    def _memory(self, row: dict[str, float]) -> list[tuple[str, str]]:
        if self.memory_high is None or "time/memory_gb" not in row:
            return []
        memory = psutil.virtual_memory()
        used = 1 - memory.available / memory.total
        if used <= self.memory_high:
            return []
        own = row["time/memory_gb"]
        return [("memory_high", f"{used:.0%} of the machine's memory is in use, {own:.1f} GB by this run")]

    def _plateau(self, row: dict[str, float]) -> list[tuple[str, str]]:
        value = row.get("eval/return", row.get("eval/score"))
        if self.plateau_patience is None or value is None:
            return []
        better = self.best is None or value > self.best + self.plateau_min_delta
        self.best = value if better else self.best
        self.since_best = 0 if better else self.since_best + 1
        if self.since_best < self.plateau_patience:
            return []
        return [("plateau", f"{self.since_best} evaluations without a better one than {self.best:.6g}")]

    def _tell(self, name: str, text: str) -> None:
        now = time.monotonic()
        if now - self._told.get(name, -math.inf) >= self.cooldown:
            self._told[name] = now
            self.messenger.send(name, text, name in self.stop_on)

    def state_dict(self) -> dict[str, Any]:
        """Only what decides: a run that is continued stops where it would have stopped."""
        wanted = {name for _, condition in self.rules for name in condition.names}
        past = {name: list(self.history[name]) for name in sorted(wanted & self.history.keys())}
        waiting = [dict(row) for row in self.listener.fresh]
        return {
            "best": self.best, "since_best": self.since_best, "streak": dict(self.streak), "past": past,
            "fresh": waiting,
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.since_best, self.streak = state["best"], state["since_best"], dict(state["streak"])
        self.history.update({name: deque(values, maxlen=WINDOW) for name, values in state["past"].items()})
        self.listener.fresh = [dict(row) for row in state["fresh"]]
