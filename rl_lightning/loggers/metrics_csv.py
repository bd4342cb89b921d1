"""metrics.csv: one row per emission, appended and flushed, never started anew."""

from __future__ import annotations

import csv
from argparse import Namespace
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from rl_lightning.io.atomic import atomic_open

CLOCKS = ("env_step", "update")


class RowLogger(Logger):
    """Base of loggers of rows alone: the run's config.yaml holds the settings."""

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def version(self) -> str:
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Not here."""


class MetricsCSVLogger(RowLogger):
    """Appends metrics to metrics.csv in the run's folder. A new column rewrites the file once, by rename.

    Args:
        folder: The run's folder.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.path = Path(folder) / "metrics.csv"
        self.columns: list[str] = []
        if self.path.exists():
            with self.path.open(newline="") as file:
                self.columns = next(csv.reader(file), [])

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        unseen = [key for key in metrics if key not in self.columns]
        if unseen or not self.path.exists():
            self._widen(unseen)
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerow([_text(metrics.get(column)) for column in self.columns])

    def _widen(self, unseen: list[str]) -> None:
        rows = self.rows()
        clocks = [key for key in CLOCKS if key in unseen]
        self.columns = self.columns + clocks + sorted(key for key in unseen if key not in clocks)
        self.rewrite(rows)

    def rows(self) -> list[dict[str, str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.DictReader(file))

    def place(self) -> dict[str, Any]:
        """Where the file stands, for a checkpoint."""
        return {"rows": len(self.rows()), "columns": list(self.columns)}

    def cut(self, place: dict[str, Any]) -> None:
        """Drops what was written after `place`."""
        self.columns = list(place["columns"])
        self.rewrite(self.rows()[: place["rows"]])

    def rewrite(self, rows: list[dict[str, str]]) -> None:
        """Replaces the whole file by the given rows."""
        with atomic_open(self.path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def _text(value: float | None) -> str:
    return "" if value is None else repr(float(value)) if not float(value).is_integer() else str(int(value))
