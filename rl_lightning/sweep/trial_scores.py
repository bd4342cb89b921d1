"""What a run's metrics.csv says, read while it is still being written."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from rl_lightning.runs.store.run_folder import Run


def history(path: Path) -> dict[str, list[float]]:
    """Every metric's values, oldest first; cells that are empty or cut short are left out."""
    series: dict[str, list[float]] = {}
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            reader = csv.reader(file)
            columns = next(reader, [])
            for row in reader:
                if len(row) != len(columns):
                    continue  # the last line of a run that is writing, or was killed
                for name, cell in zip(columns, row, strict=True):
                    value = _number(cell)
                    if value is not None:
                        series.setdefault(name, []).append(value)
    except (OSError, csv.Error):
        return {}
    return series


def _number(cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        return None


def metrics_file(run: Run, stage: str | None) -> Path:
    """Where a run's metrics are; of a pipeline those of a stage, by default of the one written last."""
    own = run.folder / "metrics.csv"
    if own.is_file() or not (run.folder / "pipeline.json").is_file():
        return own
    paths = [path for path in run.folder.glob("*/metrics.csv") if ".old" not in path.parent.name]
    if stage is not None:
        paths = [
            path
            for path in paths
            if path.parent.name.rpartition("-")[0] == stage or path.parent.name == stage
        ]
        return max(paths, key=_cycle, default=own)
    return max(paths, key=lambda path: path.stat().st_mtime, default=own)


def _cycle(path: Path) -> int:
    number = path.parent.name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def reduced(values: list[float], score: str, direction: str) -> float | None:
    """One number for a run: the mean of its last ten values, its best, or its last."""
    if not values:
        return None
    if score == "last":
        result = values[-1]
    elif score == "best":
        finite = [value for value in values if math.isfinite(value)]
        result = (max(finite) if direction == "maximize" else min(finite)) if finite else math.nan
    else:
        result = sum(values[-10:]) / len(values[-10:])
    return result if math.isfinite(result) else None
