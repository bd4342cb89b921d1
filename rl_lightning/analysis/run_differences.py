"""Two runs of one config, compared row by row: the first number that differs, or none, and what else differs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

COMPARED = ("metrics.csv", "eval.jsonl")
AROUND = ("versions", "python", "platform", "threads", "git", "data", "artifacts")


class Difference(NamedTuple):
    """Where two runs part."""

    row: int
    clock: str
    metric: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.metric} at {self.clock}: {self.before} before, {self.after} now (row {self.row + 1})"


def read_rows(path: Path, clock: str, below: int | None = None) -> list[dict[str, Any]]:
    """Rows of a metrics.csv or an eval.jsonl; those whose clock is less than `below`, if that is given."""
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        if path.suffix == ".csv":
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
        else:
            rows = [json.loads(line) for line in file if line.endswith("}\n")]
    return rows if below is None else [row for row in rows if _at(row, clock) < below]


def _at(row: dict[str, Any], clock: str) -> int:
    return int(float(row.get(clock) or 0))


def first_row(folder: Path, clock: str) -> int | None:
    """The clock of the first thing in a run's folder that another run can be held against; None if there is none."""
    rows = [row for name in COMPARED for row in read_rows(folder / name, clock)]
    return min((_at(row, clock) for row in rows), default=None)


def first_difference(
    before: Path, after: Path, clock: str, below: int | None = None
) -> tuple[Difference | None, int]:
    """The first value that differs and the number of rows compared; wall time is not a metric.

    Args:
        before: A metrics.csv, or an eval.jsonl.
        after: The other run's.
        clock: The runs' own, env_step or update.
        below: Only rows before this clock: a run that was stopped earlier has closing rows of its own there.
    """
    old, new = read_rows(before, clock, below), read_rows(after, clock, below)
    for i, (a, b) in enumerate(zip(old, new, strict=False)):
        place = f"env_step {a.get('env_step')}, update {a.get('update')}"
        for metric in dict.fromkeys([*a, *b]):
            if not metric.startswith("time/") and _shown(a, metric) != _shown(b, metric):
                return Difference(i, place, metric, _shown(a, metric), _shown(b, metric)), i
    return None, min(len(old), len(new))


def _shown(row: dict[str, Any], key: str) -> str:
    return "nothing" if row.get(key) in (None, "") else str(row[key])


def circumstances(before: dict[str, Any], after: dict[str, Any], clock: str = "env_step") -> list[str]:
    """What two records say was different around the runs: settings, versions, code, threads, machine, data."""
    lines = [f"continued {line}" for line in continuations(before, clock)]
    for key in AROUND:
        old, new = before.get(key), after.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            names = dict.fromkeys([*old, *new])
            pairs = [(f"{key} {name}", old.get(name), new.get(name)) for name in names]
        else:
            pairs = [(key, old, new)]
        lines += [
            f"{name}: {a} before, {b} now" for name, a, b in pairs if a != b and "untracked" not in name
        ]
    return lines


def continuations(record: dict[str, Any], clock: str) -> list[str]:
    """Where a run was resumed with other settings, and which."""
    return [
        f"at {clock} {item[clock]} with {', '.join(item['changed'])}" for item in record.get("resumes") or []
    ]
