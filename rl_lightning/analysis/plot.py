"""Learning curves: read from a run's own files, drawn as pictures and in characters."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rl_lightning.errors import DataError
from rl_lightning.io.text import printable, short
from rl_lightning.runs.store.metrics_file import (
    CLOCKS,
    find_column,
    header,
    read_columns,
    real_name,
    seconds,
)
from rl_lightning.runs.store.run_folder import Run
from rl_lightning.runs.store.select_runs import select_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    points = zip(places, read[name], strict=True)
    pairs = sorted(((x, y) for x, y in points if x is not None and y is not None), key=lambda pair: pair[0])
    if not pairs:
        raise DataError(f"run '{run.name}' has no value of '{metric}' yet")
    return Curve(run.name, clock, [x for x, _ in pairs], [y for _, y in pairs])


USUAL = ("eval/return", "eval/score", "loss")


def usual_metric(words: Sequence[str]) -> str:
    """What is drawn where nothing is asked for: returns, else scores, else losses, whatever all of the runs have."""
    for metric in USUAL:
        runs = [run for group in select_runs(words, metrics=[metric]).values() for run in group]
        if runs and all(has_metric(run, metric) for run in runs):
            return metric
    return USUAL[0]


def has_metric(run: Run, metric: str) -> bool:
    try:
        return real_name(metric, header(run.folder / "metrics.csv")) is not None
    except OSError:
        return False


def _clock(against: str | None, columns: Mapping[str, Sequence[float | None]], run: str) -> str:
    """The clock asked for; else env_step, or update where no env was stepped."""
    known = [name for name in CLOCKS if name in columns]
    if against is None:
        return next((name for name in known if any(columns[name])), (known or list(columns))[0])
    if against not in known:
        raise DataError(f"run '{run}' has no clock '{against}' (it has {', '.join([*known, 'time'])})")
    return against


class Band(NamedTuple):
    """Several runs as one curve: their mean at each place, and the interval it lies in or, of few runs, each."""

    label: str
    clock: str
    x: list[float]
    y: list[float]
    low: list[float] | None = None
    high: list[float] | None = None
    runs: int = 1
    each: Sequence[list[float]] = ()


Picture = tuple[str, Sequence["Curve | Band"]]  # a metric and its curves


def draw(pictures: Sequence[Picture]) -> Figure:
    """One picture above the other: a colour and dash for each curve, and for a group its mean with its spread."""
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(7.2, 4.2 if len(pictures) == 1 else 3.0 * len(pictures)), dpi=140, layout="tight"
    )
    places = figure.subplots(len(pictures), squeeze=False)[:, 0]
    for axes, (metric, curves) in zip(places, pictures, strict=True):
        _draw_curves(axes, metric, curves)
    return figure


def _draw_curves(axes: Any, metric: str, curves: Sequence[Curve | Band]) -> None:
    for number, curve in enumerate(curves):
        colour, dashes = style(number)
        line, dot = (0, dashes) if dashes else "-", "." if len(curve.x) < 60 else None
        look: dict[str, Any] = {"color": colour, "linestyle": line, "linewidth": 1.5, "marker": dot}
        axes.plot(curve.x, curve.y, label=plain_label(curve), **look)
        if isinstance(curve, Band):
            _draw_spread(axes, curve, colour)
    axes.set_xlabel(printable(curves[0].clock), parse_math=False)
    axes.set_ylabel(printable(metric), parse_math=False)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    for text in axes.legend(frameon=False, fontsize=8).get_texts():
        text.set_parse_math(False)  # a name with two dollars in it is not a formula


def _draw_spread(axes: Any, band: Band, colour: str) -> None:
    """The interval, or a thin line for each of few runs."""
    for row in band.each:
        axes.plot(band.x, row, color=colour, linewidth=0.7, alpha=0.5)
    if band.low is not None and band.high is not None:
        axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.18, linewidth=0)


def save(curves: Sequence[Curve | Band], metric: str, path: Path) -> Path:
    """The picture as a file of the kind that its name tells."""
    return save_all([(metric, curves)], path)


def save_all(pictures: Sequence[Picture], path: Path) -> Path:
    """Several metrics in one picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(pictures).savefig(path)
    return path


def svg_uri(curves: Sequence[Curve | Band], metric: str) -> str:
    """The picture as a data: URI, for a page that loads nothing. Its letters are text in the reader's own font."""
    from matplotlib import rc_context

    file = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        draw([(metric, curves)]).savefig(file, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def plain_label(curve: Curve | Band) -> str:
    runs = curve.runs if isinstance(curve, Band) else 1
    label = f"{curve.label} ({runs} runs)" if runs > 1 else curve.label
    return printable(label).lstrip("_") or "run"  # matplotlib hides a label that begins with _


MARKS = "●○▲△■□◆◇"


def in_characters(curves: Sequence[Curve | Band], metric: str, width: int = 72, height: int = 14) -> str:
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
