"""Keeps finished runs as small CSV files in results/, and shows them as a table.

    python scripts/results.py add RUN [RUN ...]     results/<run>.csv: every evaluation, what made them, the final test
    python scripts/results.py add RUN --stopped     the same of a run that was ended before its budget
    python scripts/results.py table                 all of results/, in Markdown

A file begins with lines `# key: value` (command, config hash, versions, seed, date, test), then one row per evaluation.
The final test is `rl test RUN`: the best checkpoint on 20 fresh seeds.
"""

from __future__ import annotations

import argparse
import csv
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rl_lightning.runs.store.run_folder import resolve

RESULTS = Path(__file__).parents[1] / "results"
COLUMNS = ("env_step", "update", "return_mean", "return_std", "episodes")


def evaluations(path: Path) -> list[tuple[int, int, float, float, int]]:
    """One row for each clock at which episodes were evaluated."""
    episodes: dict[tuple[int, int], list[float]] = {}
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        episodes.setdefault((entry["env_step"], entry["update"]), []).append(entry["return"])
    return [
        (*clock, round(float(np.mean(values)), 3), round(float(np.std(values)), 3), len(values))
        for clock, values in sorted(episodes.items())
    ]


def header(record: dict[str, Any], test: dict[str, Any]) -> dict[str, str]:
    versions = record["versions"] | {"python": record["python"]}
    known = {
        "command": shlex.join(record["command"]),
        "algorithm": record["algorithm"],
        "env": record["env"],
        "seed": record["seed"],
        "threads": record["threads"],
        "config_hash": record["config_hash"],
        "commit": record["git"]["commit"],
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "date": record["updated"][:10],
        "last10": round(record["last10"], 3),
    }
    if test:
        known |= {key: round(float(test[key]), 3) for key in ("mean", "std", "min", "max") if key in test}
        known["test"] = (
            f"{len(test['episodes'])} episodes of {test['checkpoint'].split(' · ')[1]} on fresh seeds"
        )
    return {key: str(value) for key, value in known.items()}


def add(name: str, folder: Path = RESULTS, stopped: bool = False) -> Path:
    """Writes a finished run's file, or that of one which was stopped for good."""
    run = resolve(name)
    record, tested = run.read(), run.folder / "test.json"
    if record["status"] != "finished" and not (stopped and record["status"] == "interrupted"):
        raise SystemExit(f"{name} is {record['status']}; only what is finished is a result")
    about = header(record, json.loads(tested.read_text()) if tested.is_file() else {})
    if record["status"] == "interrupted":
        about["stopped"] = f"at {record['env_step']} env steps, before its budget"
    folder.mkdir(exist_ok=True)
    path = folder / f"{run.folder.name}.csv"
    with path.open("w", newline="") as file:
        file.writelines(f"# {key}: {value}\n" for key, value in about.items())
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *evaluations(run.folder / "eval.jsonl")])
    return path


def read(path: Path) -> tuple[dict[str, str], list[dict[str, float]]]:
    lines = path.read_text().splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return about, [{key: float(value) for key, value in row.items()} for row in rows]


def table(folder: Path = RESULTS) -> str:
    """All results, one line each."""
    lines = [
        "| run | env steps | best evaluation | last-10 mean | test, mean ± std | command |",
        "|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.csv")):
        about, rows = read(path)
        best = max(row["return_mean"] for row in rows)
        test = f"{about['mean']} ± {about['std']}" if "mean" in about else "not tested"
        steps = f"{int(rows[-1]['env_step']):,}"
        lines.append(
            f"| {path.stem} | {steps} | {best} | {about['last10']} | {test} | `{about['command']}` |"
        )
    return "\n".join(lines)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("add", "table"))
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--stopped", action="store_true")
    asked = parser.parse_args(words)
    if asked.verb == "table":
        print(table())
    for name in asked.runs if asked.verb == "add" else ():
        print(add(name, stopped=asked.stopped))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
