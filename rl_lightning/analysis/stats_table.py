"""Tables of a comparison: numbers for machines, text for people."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rl_lightning.io.score_counts import LAST
from rl_lightning.io.text import number, printable
from rl_lightning.runs.store.metrics_file import lower_is_better

if TYPE_CHECKING:
    from rl_lightning.analysis.compare import Comparison

WIDE = 4  # with more groups than this, settings become columns
# One row per metric and group; the columns of CSV and JSON.
COLUMNS = (
    "metric", "name", "task", "runs", "over", "last10", "best", "iqm", "iqm_low", "iqm_high", "median",
    "optimality_gap", "auc", "steps_to_threshold", "reached", "improvement", "improvement_low", "improvement_high",
    "std", "values", "evaluations",
)  # fmt: skip
MARK = "*"  # of a last-10 mean of fewer
MOST_SETTINGS = 12
MOST_WIDE = 100_000  # columns of a terminal: a line is never broken


@dataclass
class Table:
    """Rows of plain values under named columns. A number that is not finite is no value.

    Args:
        columns: Their names.
        rows: One list per row, as long as there are columns.
        title: What stands above it.
        notes: What stands below it.
        best: Row and column of each value that is the best of several.
    """

    columns: list[str]
    rows: list[list[Any]]
    title: str = ""
    notes: list[str] = field(default_factory=list)
    best: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        self.rows = [[plain(value) for value in row] for row in self.rows]


def plain(value: Any) -> Any:
    """A value that JSON can hold: no NaN, no infinity, no objects."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | bool | None) else str(value)


def from_dicts(rows: Sequence[dict[str, Any]], columns: Sequence[str], title: str = "") -> Table:
    return Table(list(columns), [[row.get(column) for column in columns] for row in rows], title)


def shown(value: Any) -> str:
    """A value in a cell: four digits that count, and never a control character."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e7 else number(value)
    return printable(str(value))


def score_tables(result: Comparison) -> list[Table]:
    """For people: one table per metric, intervals beside their estimates."""
    return [_scores(result, metric) for metric in result.metrics]


def _scores(result: Comparison, metric: str) -> Table:
    rows = [row for row in result.rows if row["metric"] == metric]
    spread = "95%" if all(row["iqm_low"] is not None for row in rows) else "95% or runs"
    columns = ["name", "task", "runs", "last-10", "best", f"IQM ({spread})", "median", "gap", "auc", "steps"]
    several = len(rows) > 1
    columns += [f"better than {printable(result.names[0])}"] if several else []
    body = [
        [
            row["name"],
            row["task"],
            row["runs"],
            last10(row),
            row["best"],
            interval(row["iqm"], row["iqm_low"], row["iqm_high"], row["values"]),
            row["median"],
            row["optimality_gap"],
            row["auc"],
            f"{shown(row['steps_to_threshold'])} ({row['reached']})",
            *([chance(row)] if several else []),
        ]
        for row in rows
    ]
    notes = [note for note in result.notes if note.startswith(metric)]
    if any(row["runs"] > 1 for row in rows):
        notes.append("± standard deviation over runs")
    notes.append(f"best: of each run its {'lowest' if lower_is_better(metric) else 'highest'} {metric}")
    if any(row["evaluations"] < LAST for row in rows):
        notes.append(f"{MARK} fewer than {LAST} values: the mean is that of all")
    best = best_of(rows, lower_is_better(metric)) if several else frozenset()
    return Table(columns, [[shown(value) for value in row] for row in body], metric, notes, best)


def last10(row: dict[str, Any]) -> str:
    """The mean with its standard deviation over runs, and a mark where it is of fewer than ten."""
    spread = f" ± {shown(row['std'])}" if row["runs"] > 1 else ""
    return f"{shown(row['last10'])}{spread}{MARK if row['evaluations'] < LAST else ''}"


def best_of(rows: Sequence[dict[str, Any]], lower: bool) -> frozenset[tuple[int, int]]:
    """Row and column of the best of each statistic in a table of scores; groups of other tasks are none of them."""
    if len({row["task"] for row in rows}) > 1:
        return frozenset()
    best = set()
    for column, key in enumerate(("last10", "best", "iqm", "median", "optimality_gap", "auc"), start=3):
        values = [row[key] for row in rows]
        pick = min if lower or key == "optimality_gap" else max
        best |= {(number, column) for number, value in enumerate(values) if value == pick(values)}
    return frozenset(best)


def interval(value: float | None, low: float | None, high: float | None, runs: Sequence[float] = ()) -> str:
    """An estimate with its interval or, where there is none, with the score of each run."""
    if value is None:
        return "-"
    scores = ", ".join(map(shown, runs)) if len(runs) > 1 else ""
    spread = scores if low is None else f"{shown(low)} to {shown(high)}"
    return f"{shown(value)} ({spread})" if spread else shown(value)


def chance(row: dict[str, Any]) -> str:
    if row["improvement"] is None:
        return "-"
    percent = f"{100 * row['improvement']:.0f}%"
    if row["improvement_low"] is None:
        return percent
    return f"{percent} ({100 * row['improvement_low']:.0f} to {100 * row['improvement_high']:.0f})"


def improvement_table(result: Comparison, metric: str) -> Table:
    """Chance that the group of a row scores better than that of a column."""
    names = result.names
    chances = result.improvement.get(metric, {})
    rows = []
    for ours in names:
        cells = [chances.get(ours, {}).get(theirs) for theirs in names]
        rows.append([printable(ours), *("-" if p is None else f"{100 * p:.0f}%" for p in cells)])
    return Table(
        ["better than", *map(printable, names)], rows, f"{metric}: chance that a row is better than a column"
    )


def settings_table(result: Comparison, limit: int | None = MOST_SETTINGS) -> Table:
    """Settings that differ; groups are the columns, or the rows where they are many."""
    settings = result.settings
    title = "settings that differ" if settings else "no setting differs"
    if len(result.names) <= WIDE:
        rows = [[key, *(shown(values[name]) for name in result.names)] for key, values in settings.items()]
        most = len(rows) if limit is None else 3 * limit
        more = [f"{len(rows) - most} more settings differ"] if len(rows) > most else []
        return Table(["setting", *map(printable, result.names)], rows[:most], title, more)
    keys = list(settings)[:limit]
    rows = [[printable(name), *(shown(settings[key][name]) for key in keys)] for name in result.names]
    left = len(settings) - len(keys)
    return Table(["name", *keys], rows, title, [f"{left} more settings differ"] if left else [])


def aligned(table: Table) -> str:
    """For a terminal: columns as wide as they need, numbers to the right."""
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    cells = [[shown(value) for value in row] for row in table.rows]
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for i, column in enumerate(table.columns):
        right = bool(cells) and all(_numeric(line[i]) for line in cells)
        grid.add_column(Text(printable(column)), justify="right" if right else "left", no_wrap=True)
    for line in cells:
        grid.add_row(*map(Text, line))
    console = Console(file=io.StringIO(), width=MOST_WIDE, color_system=None)
    with console.capture() as capture:
        console.print(grid)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join([*([table.title] if table.title else []), *lines, *table.notes])


def _numeric(text: str) -> bool:
    try:
        float(text.removesuffix(MARK))
    except ValueError:
        return text == "-"
    return True


def as_text(result: Comparison) -> str:
    """Everything that a comparison says, as tables and notes."""
    tables = score_tables(result)
    if 2 < len(result.names) <= 8:
        tables += [improvement_table(result, metric) for metric in result.metrics]
    if len(result.names) > 1:
        tables.append(settings_table(result))
    table_notes = {note for table in tables for note in table.notes}
    notes = [f"note: {note}" for note in result.notes if note not in table_notes]
    parts = [aligned(table) if table.rows else table.title for table in tables]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])
