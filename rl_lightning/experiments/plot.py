"""Learning curves: read from a run's own files, drawn as PNG and in characters."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rl_lightning.errors import DataError
from rl_lightning.experiments.names import did_you_mean
from rl_lightning.experiments.runs import Run

CLOCKS = ("env_step", "update", "step")


class Curve(NamedTuple):
    """One metric of one run against its clock."""

    label: str
    clock: str
    x: list[float]
    y: list[float]


def read_curve(run: Run, metric: str = "eval/return") -> Curve:
    """A metric from metrics.csv, by the run's public clock."""
    path = run.folder / "metrics.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = list(reader.fieldnames or [])
            if metric not in columns:
                known = [column for column in columns if column not in CLOCKS]
                hint = did_you_mean(metric, known) or f" (it has {', '.join(known[:8])})"
                raise DataError(f"run '{run.name}' has no metric '{metric}'{hint}")
            clock = next((name for name in CLOCKS if name in columns), columns[0])
            points = [(_number(row.get(clock)), _number(row.get(metric))) for row in reader]
    except FileNotFoundError:
        raise DataError(f"run '{run.name}' has no metrics yet ({path} is missing)") from None
    pairs = sorted((x, y) for x, y in points if x is not None and y is not None)
    if not pairs:
        raise DataError(f"run '{run.name}' has no value of '{metric}' yet")
    return Curve(run.name, clock, [x for x, _ in pairs], [y for _, y in pairs])


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def read_episodes(run: Run) -> list[dict[str, object]]:
    """Every evaluation episode of a run; a last line cut short by a crash is dropped."""
    path = run.folder / "eval.jsonl"
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def save_png(curves: Sequence[Curve], metric: str, path: Path) -> Path:
    """One picture of all curves."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), dpi=140)
    for curve in curves:
        axes.plot(
            curve.x, curve.y, marker="." if len(curve.x) < 60 else None, linewidth=1.4, label=curve.label
        )
    axes.set_xlabel(curves[0].clock)
    axes.set_ylabel(metric)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    return path


MARKS = "●○▲△■□◆◇"


def in_characters(curves: Sequence[Curve], metric: str, width: int = 72, height: int = 14) -> str:
    """The same curves in the terminal."""
    xs = [x for curve in curves for x in curve.x]
    ys = [y for curve in curves for y in curve.y]
    x_low, x_high, y_low, y_high = min(xs), max(xs), min(ys), max(ys)
    x_span, y_span = (x_high - x_low) or 1.0, (y_high - y_low) or 1.0
    grid = [[" "] * width for _ in range(height)]
    for number, curve in enumerate(curves):
        for x, y in zip(curve.x, curve.y, strict=True):
            column = round((x - x_low) / x_span * (width - 1))
            row = height - 1 - round((y - y_low) / y_span * (height - 1))
            grid[row][column] = MARKS[number % len(MARKS)]
    margin = max(len(short(y_low)), len(short(y_high)))
    labels = [short(y_high), *[""] * (height - 2), short(y_low)]
    lines = [f"{label:>{margin}} ┤{''.join(row).rstrip()}" for label, row in zip(labels, grid, strict=True)]
    left, right = short(x_low), short(x_high)
    axis = f"{' ' * margin} └{'─' * width}"
    feet = f"{' ' * margin}  {left}{curves[0].clock.center(width - len(left) - len(right))}{right}"
    legend = "  ".join(f"{MARKS[i % len(MARKS)]} {curve.label}" for i, curve in enumerate(curves))
    return "\n".join([metric, *lines, axis, feet, legend])


def short(value: float) -> str:
    """A number in at most seven characters: 31k, 1.2M, 487, 0.031."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scaled = value / (1e3 if unit == "k" else limit)
            return f"{scaled:.3g}{unit}"
    return f"{value:.4g}"
