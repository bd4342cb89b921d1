"""What a sweep leaves: a table of its trials, the best ones as ordinary configs, and a few lines to read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from rl_lightning.io.atomic import atomic_open, write_text
from rl_lightning.io.text import number
from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.study import TrialRow

Config = dict[str, Any]


def ranking(rows: Sequence[TrialRow], direction: str) -> list[TrialRow]:
    """Complete trials that fulfil the constraints, the best first; of equal ones the earlier."""
    sign = -1.0 if direction == "maximize" else 1.0
    valid = [row for row in rows if row.state == "complete" and row.feasible and row.score is not None]
    return sorted(valid, key=lambda row: (sign * (row.score or 0.0), row.slot))


def best_row(rows: Sequence[TrialRow], direction: str) -> TrialRow | None:
    return next(iter(ranking(rows, direction)), None)


def shown_params(params: dict[str, Any]) -> str:
    return " ".join(
        f"{key}={number(value)}" if isinstance(value, float) else f"{key}={value}"
        for key, value in params.items()
    )


def write_table(folder: Path, rows: Sequence[TrialRow], keys: Sequence[str]) -> Path:
    """trials.csv: one line per trial. Another worker may be writing it too."""
    with atomic_open(folder / "trials.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["trial", "state", "score", "feasible", "seconds", *keys, "scores", "runs", "reason"])
        for row in rows:
            values = [row.params.get(key, "") for key in keys]
            lists = [" ".join(map(str, row.about.get(key, []))) for key in ("scores", "runs")]
            writer.writerow(
                [row.slot, row.state, "" if row.score is None else repr(row.score), row.feasible,
                 "" if row.seconds is None else round(row.seconds, 1), *values, *lists, row.about.get("reason", "")]
            )  # fmt: skip
    return folder / "trials.csv"


def write_best(
    folder: Path,
    rows: Sequence[TrialRow],
    definition: SweepDefinition,
    config_of: Callable[[dict[str, Any], int], Config],
    count: int = 1,
) -> list[Path]:
    """best.yaml, and best-2.yaml and so on: configs that `rl fit` trains as they are."""
    written = []
    for place, row in enumerate(ranking(rows, definition.direction)[:count], 1):
        path = folder / ("best.yaml" if place == 1 else f"best-{place}.yaml")
        seeds = ",".join(map(str, definition.seeds))
        again = f"rl fit --config {path}" + (f" --seeds {seeds}" if len(definition.seeds) > 1 else "")
        header = [
            f"# trial {row.slot} of sweep {definition.name}: {definition.metric} ({definition.score}) {row.score!r}",
            *(f"# {key}: {value}" for key, value in row.params.items()),
            f"# {again}",
        ]
        body = yaml.safe_dump(config_of(row.params, definition.seeds[0]), sort_keys=False)
        written.append(write_text(path, "\n".join(line.replace("\n", " ") for line in header) + "\n" + body))
    return written


def summary(rows: Sequence[TrialRow], definition: SweepDefinition, folder: Path) -> str:
    """The closing lines."""
    count = {state: sum(row.state == state for row in rows) for state in ("complete", "pruned", "fail")}
    waiting = len(rows) - sum(count.values())
    parts = [f"{count['complete']} of {len(rows)} trials complete"]
    parts += [
        f"{number} {word}"
        for word, number in (("pruned", count["pruned"]), ("failed", count["fail"]))
        if number
    ]
    parts += [f"{waiting} not done: the same command continues"] if waiting else []
    lines = [f"sweep {definition.name}: {', '.join(parts)}"]
    for row in [row for row in rows if row.state == "fail"][:3]:
        lines.append(f"  trial {row.slot} failed: {row.about.get('reason', 'unknown')}")
    for place, row in enumerate(ranking(rows, definition.direction)[:3], 1):
        lines.append(f"  {place}. {row.score:.6g}  trial {row.slot}: {shown_params(row.params)}")
    if count["complete"] and best_row(rows, definition.direction) is None:
        lines.append("  no trial fulfils the constraints")
    lines.append(f"folder: {folder}")
    if best_row(rows, definition.direction) is not None:
        lines.append(f"next:   rl fit --config {folder / 'best.yaml'}")
    return "\n".join(lines)
