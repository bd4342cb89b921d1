"""The table of ratios, on the terminal and in docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
HEAD = ("workload", "ours", "against", "ratio", "bar", "")


class Row(NamedTuple):
    """One comparison. `bar` is the least ratio that will do, or the greatest where `at_most`; None: no bar."""

    group: str
    workload: str
    ours: str
    against: str
    ratio: float | None
    bar: float | None = None
    at_most: bool = False
    percent: bool = False

    @property
    def holds(self) -> bool | None:
        if self.ratio is None or self.bar is None:
            return None
        return self.ratio <= self.bar if self.at_most else self.ratio >= self.bar

    def cells(self) -> tuple[str, ...]:
        def show(value: float | None) -> str:
            if value is None:
                return "-"
            return f"{100 * value:.1f} %" if self.percent else f"{value:.2f}x"

        sign = "at most " if self.at_most else "at least "
        verdict = {None: "", True: "holds", False: "MISSED"}[self.holds]
        bar = "" if self.bar is None else sign + show(self.bar)
        return (self.workload, self.ours, self.against, show(self.ratio), bar, verdict)


def table(rows: list[Row]) -> str:
    """Aligned columns that are also Markdown."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(3, *(len(line[k]) for line in lines)) for k in range(len(HEAD))]
    text = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(text)


def write(rows: list[Row], machine: list[str], notes: list[str]) -> None:
    parts = [
        "# Benchmarks",
        "Written by `make bench`. Absolute figures differ from machine to machine; the ratios are what counts. Each "
        "library runs in a venv and a process of its own, contenders take turns, every figure is the median of three "
        "after a warm-up. All rows are of one run on one machine. Settings are equal (benchmarks/settings.py): what is "
        "computed differs only where a row says so. A bar is for the fastest peer.",
        table(rows),
        "\n".join(f"- {line}" for line in [*machine, *notes]),
        "`Lightning's share` compares blocks that the Trainer runs with every default callback to the same blocks "
        "(`next_block`, `training_step`) in a bare loop, in turns within one run. `Collecting` compares a random "
        "policy that records everything to stepping the same vector env with actions drawn beforehand.",
    ]
    DOCS.write_text("\n\n".join(parts) + "\n")
