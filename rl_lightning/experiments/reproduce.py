"""Two metrics files, compared row by row: the first number that differs, or none."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple


class Difference(NamedTuple):
    """Where two runs part."""

    row: int
    clock: str
    metric: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.metric} at {self.clock}: {self.before} before, {self.after} now (row {self.row + 1})"


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def first_difference(before: Path, after: Path) -> tuple[Difference | None, int]:
    """The first metric that differs and the number of rows compared; wall time is no metric."""
    old, new = read_rows(before), read_rows(after)
    for i, (a, b) in enumerate(zip(old, new, strict=False)):
        clock = f"env_step {a.get('env_step')}, update {a.get('update')}"
        for metric in dict.fromkeys([*a, *b]):
            if not metric.startswith("time/") and (a.get(metric) or "") != (b.get(metric) or ""):
                return Difference(i, clock, metric, a.get(metric) or "nothing", b.get(metric) or "nothing"), i
    return None, min(len(old), len(new))
