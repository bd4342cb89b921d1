"""Learning curves: read from a run's own files, drawn as PNG and in characters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rl_lightning.errors import DataError
from rl_lightning.io.text import short
from rl_lightning.runs.store.metrics_file import CLOCKS, find_column, header, read_columns, seconds
from rl_lightning.runs.store.run_folder import Run

# Okabe and Ito's colours: told apart by the colour-blind; dashes tell them apart in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
DASHES: tuple[tuple[int, ...], ...] = ((), (6, 2), (2, 2), (8, 2, 2, 2), (4, 1, 1, 1, 1, 1))


def style(number: int) -> tuple[str, tuple[int, ...]]:
    """Colour and dashes of the curve with this number; no two of the first forty are alike."""
    return COLOURS[number % len(COLOURS)], DASHES[(number // len(COLOURS) + number) % len(DASHES)]


class Curve(NamedTuple):
    """One metric of one run against its clock."""

    label: str
    clock: str
    x: list[float]
    y: list[float]


def read_curve(run: Run, metric: str = "eval/return", against: str | None = None) -> Curve:
    """A metric from metrics.csv, by the run's public clock, another of its clocks, or `time` in seconds.

    `reward` and `loss` stand for the run's score and loss, whatever they are called.
    """
    path = run.folder / "metrics.csv"
    try:
        columns = header(path)
        name = find_column(metric, columns, run.name)
        rates = ("time/env_steps_per_s", "time/updates_per_s") if against == "time" else ()
        read = read_columns(path, {name, *CLOCKS, *rates, columns[0]})
    except FileNotFoundError:
        raise DataError(f"run '{run.name}' has no metrics yet ({path} is missing)") from None
    clock = "seconds" if against == "time" else _clock(against, read, run.name)
    places = seconds(read) if against == "time" else read[clock]
    found = zip(places, read[name], strict=True)
    pairs = sorted(((x, y) for x, y in found if x is not None and y is not None), key=lambda pair: pair[0])
    if not pairs:
        raise DataError(f"run '{run.name}' has no value of '{metric}' yet")
    return Curve(run.name, clock, [x for x, _ in pairs], [y for _, y in pairs])


def _clock(against: str | None, columns: Mapping[str, Sequence[float | None]], run: str) -> str:
    """The clock asked for; else env_step, or update where no env was stepped."""
    known = [name for name in CLOCKS if name in columns]
    if against is None:
        return next((name for name in known if any(columns[name])), (known or list(columns))[0])
    if against not in known:
        raise DataError(f"run '{run}' has no clock '{against}' (it has {', '.join([*known, 'time'])})")
    return against


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


class Band(NamedTuple):
    """Several runs as one curve: their mean at each place, and the interval it lies in."""

    label: str
    clock: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    runs: int


def save_bands(bands: Sequence[Band], metric: str, path: Path) -> Path:
    """A picture of groups: one colour and dash each, means with their 95 % intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 4.2), dpi=140)
    for number, band in enumerate(bands):
        colour, dashes = style(number)
        line = (0, dashes) if dashes else "-"
        axes.plot(band.x, band.y, color=colour, linestyle=line, linewidth=1.5, label=plain_label(band))
        if band.runs > 1:
            axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel(bands[0].clock, parse_math=False)
    axes.set_ylabel(metric, parse_math=False)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for text in axes.legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)  # a name with two dollars in it is no formula
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot.close(figure)
    return path


def plain_label(band: Band) -> str:
    label = f"{band.label} ({band.runs} runs)" if band.runs > 1 else band.label
    return label.lstrip("_") or "run"  # matplotlib hides a label that begins with _


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
