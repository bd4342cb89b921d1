"""Reading metrics.csv: whole columns, or only the newest values. A row cut short by a crash is left out."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rl_lightning.errors import DataError
from rl_lightning.runs.store.names import did_you_mean

CLOCKS = ("env_step", "update", "step")
SECONDS = "time/seconds"
WINDOWS = (1 << 16, 1 << 21)  # bytes from the end that are tried before the whole file is read
ALIASES = {
    "reward": ("eval/return", "eval/score"),
    "return": ("eval/return",),
    "score": ("eval/score",),
    "loss": ("train/loss", "train/critic_loss", "train/q_loss", "train/value_loss", "train/policy_loss"),
}
_LOWER = ("loss", "error", "nll", "mse", "rmse", "mae", "regret", "gap")


def lower_is_better(metric: str) -> bool:
    """Told by the last word of its name: losses and errors."""
    words = metric.rpartition("/")[2].replace("-", "_").split("_")
    return any(word in _LOWER for word in words) or metric == "loss"


def number(text: str | None) -> float | None:
    """A finite number, or None."""
    try:
        value = float(text) if text else None
    except ValueError:
        return None
    return value if value is not None and math.isfinite(value) else None


def header(path: Path) -> list[str]:
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        return next(csv.reader(file), [])


def real_name(metric: str, columns: Sequence[str]) -> str | None:
    """The column that a metric or an alias stands for; None if there is none."""
    if metric in columns:
        return metric
    return next((name for name in ALIASES.get(metric, ()) if name in columns), None)


def find_column(metric: str, columns: Sequence[str], run: str) -> str:
    name = real_name(metric, columns)
    if name is None:
        known = [column for column in columns if column not in CLOCKS]
        hint = did_you_mean(metric, known) or f" (it has {', '.join(known)})"
        raise DataError(f"run '{run}' has no metric '{metric}'{hint}")
    return name


def read_columns(path: Path, names: Iterable[str]) -> dict[str, list[float | None]]:
    """Columns of a metrics.csv by name, all equally long; a name it lacks is left out."""
    try:
        with open(path, newline="", encoding="utf-8", errors="replace") as file:
            lines = _whole_lines(file)
            columns = next(csv.reader(lines), [])
            places = {name: columns.index(name) for name in names if name in columns}
            values: dict[str, list[float | None]] = {name: [] for name in places}
            for row in csv.reader(lines):
                size = len(row)
                for name, place in places.items():
                    values[name].append(number(row[place]) if place < size else None)
    except csv.Error as error:
        raise DataError(f"{path}: is not a table of metrics ({error})") from None
    return values


def _whole_lines(file: Iterable[str]) -> Iterator[str]:
    """Lines that end: of a last one that does not, even the last number may be half of one."""
    for line in file:
        if line.endswith(("\n", "\r")):
            yield line.replace("\0", "")


def seconds(columns: dict[str, list[float | None]]) -> list[float]:
    """Training time at each row, from the rates that were measured between rows."""
    rates = [columns.get("time/env_steps_per_s", []), columns.get("time/updates_per_s", [])]
    clocks = [columns.get("env_step", []), columns.get("update", [])]
    size = max((len(column) for column in (*rates, *clocks)), default=0)
    passed, before, elapsed = 0.0, [0.0, 0.0], []
    for i in range(size):
        for rate, clock, k in zip(rates, clocks, (0, 1), strict=True):
            speed, now = (rate[i] if rate else None), (clock[i] if clock else None)
            if speed and speed > 0 and now is not None and now > before[k]:
                passed += (now - before[k]) / speed
                break
        if any(rate and rate[i] is not None for rate in rates):
            before = [(clock[i] or 0.0) if clock else 0.0 for clock in clocks]
        elapsed.append(passed)
    return elapsed


def newest(path: Path) -> dict[str, float]:
    """The last value of every column, read from the end of the file."""
    columns = header(path)
    size = os.stat(path).st_size
    values: dict[str, float] = {}
    for window in (*WINDOWS, size):
        values = _newest_in(path, columns, max(0, size - window))
        if len(values) == len(columns) or window >= size:
            break
    return values


def _newest_in(path: Path, columns: list[str], start: int) -> dict[str, float]:
    with open(path, "rb") as file:
        file.seek(start)
        text = file.read().decode("utf-8", "replace").replace("\0", "")
    lines = text.splitlines(keepends=True)[1:]  # the header, or a line that begins before the window
    values: dict[str, float] = {}
    wanted = dict(enumerate(columns))
    for line in reversed(lines):
        if not line.endswith(("\n", "\r")):
            continue
        cells = line.rstrip("\r\n").split(",")
        for place, name in list(wanted.items()):
            value = number(cells[place]) if place < len(cells) else None
            if value is not None:
                values[name] = value
                del wanted[place]
        if not wanted:
            break
    return values
