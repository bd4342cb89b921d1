"""`rl list`: runs, groups and pipelines as a table, JSON or CSV. Needs no torch."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from rl_lightning.cli.flags import Parsed
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.filters import keep, order, parse_condition, value_of
from rl_lightning.experiments.index import Index, Listed
from rl_lightning.experiments.names import did_you_mean
from rl_lightning.experiments.stats_table import Table, aligned, plain

LIST_TAKES = ("filter", "sort", "format", "limit", "columns")
LIST_FORMATS = ("table", "text", "json", "csv")
COLUMNS = ("name", "algorithm", "env", "seed", "status", "env_step", "best", "last10")


def list_runs(parsed: Parsed, kind: str) -> int:
    """`rl list [runs | groups | pipelines]`."""
    with Index() as index:
        everything = index.runs()
        wanted = [run for run in everything if run.is_stage == (kind == "pipelines") or run.is_pipeline]
        runs = keep(wanted, [parse_condition(text) for text in parsed.all("filter")])
        key = parsed.get("sort")
        if key:
            runs = order(runs, key, parsed.has("reverse"))
        elif parsed.has("reverse"):
            runs.reverse()
        if kind != "groups" and parsed.get("limit"):
            runs = runs[: parsed.integer("limit", 0)]
        rows = ROWS[kind](runs, parsed)
    if kind == "groups" and parsed.get("limit"):
        rows = rows[: parsed.integer("limit", 0)]
    show_rows(rows, parsed.get("format") or "table", _nothing(kind, bool(everything)))
    return 0


def _nothing(kind: str, some: bool) -> str:
    if some:
        return f"no {kind} match" if kind == "runs" else f"no {kind} here"
    return "no runs here yet; start one with: rl fit --config ppo/cartpole"


def run_rows(runs: Sequence[Listed], parsed: Parsed) -> list[dict[str, Any]]:
    columns = [word.strip() for word in (parsed.get("columns") or "").split(",") if word.strip()]
    if parsed.get("format") == "json" and not columns:
        return [{"name": run.name, **run.record, **live(run)} for run in runs]
    rows = []
    usual = usual_columns(runs)
    for run in runs:
        known = {"name": run.name, **run.record, **live(run), "dataset": dataset_of(run)}
        row = {c: value_of(run, c) if columns else known.get(c) for c in columns or usual}
        if not columns and run.is_pipeline:
            row["algorithm"] = "pipeline"
        if not columns and known.get("progress") is not None and parsed.get("format") != "csv":
            row["status"] = f"{run.status} {known['progress']:.0%}"
        rows.append(row)
    return rows


def usual_columns(runs: Sequence[Listed]) -> list[str]:
    """Those of COLUMNS, and, where some run learns from recorded data, which data and how many updates."""
    found = list(COLUMNS)
    if any(dataset_of(run) for run in runs):
        found.insert(found.index("env") + 1, "dataset")
    if any(run.record.get("update") and not run.record.get("env_step") for run in runs):
        found.insert(found.index("env_step") + 1, "update")
    return found


def dataset_of(run: Listed) -> str | None:
    data = run.record.get("data")
    return str(data["name"]) if isinstance(data, dict) and data.get("name") else None


def live(run: Listed) -> dict[str, Any]:
    """What a running run has reached by now; its record is older than its metrics."""
    if run.status != "running":
        return {"status": run.status}
    metrics, config = run.metrics, run.config
    found: dict[str, Any] = {"status": run.status}
    found |= {clock: int(metrics[clock]) for clock in ("env_step", "update") if clock in metrics}
    for clock, budget in (("env_step", "run.env_steps"), ("update", "run.updates")):
        total = config.get(budget)
        if isinstance(total, int) and total > 0 and clock in found:
            found["progress"] = round(min(1.0, found[clock] / total), 4)
            break
    return found


def group_rows(runs: Sequence[Listed], parsed: Parsed) -> list[dict[str, Any]]:
    """Groups of seeds with the means of their scores."""
    groups: dict[str, list[Listed]] = {}
    for run in runs:
        if run.record.get("group"):
            groups.setdefault(str(run.record["group"]), []).append(run)
    rows = []
    for name, members in groups.items():
        row: dict[str, Any] = {"group": name}
        for key in ("algorithm", "env"):
            row[key] = ", ".join(dict.fromkeys(str(run.record.get(key)) for run in members))
        row |= {"runs": len(members), "finished": sum(run.status == "finished" for run in members)}
        for key in ("best", "last10"):
            values = [run.record[key] for run in members if isinstance(run.record.get(key), int | float)]
            row[key] = sum(values) / len(values) if values else None
        rows.append(row)
    return rows


def stage_rows(runs: Sequence[Listed], parsed: Parsed) -> list[dict[str, Any]]:
    """Pipelines, each followed by its stages."""
    rows = []
    for run in sorted(runs, key=lambda run: run.name):
        row = {c: run.record.get(c) for c in ("algorithm", "env", "env_step", "update", "best", "last10")}
        row["dataset"] = dataset_of(run)
        row |= {"algorithm": "pipeline"} if run.is_pipeline else {}
        rows.append({"name": run.name, "status": run.status, **row})
    return rows


ROWS = {"runs": run_rows, "groups": group_rows, "pipelines": stage_rows}


def show_rows(rows: list[dict[str, Any]], form: str, nothing: str) -> None:
    if form not in LIST_FORMATS:
        raise ConfigError(
            f"--format takes table, json or csv, not '{form}'{did_you_mean(form, LIST_FORMATS)}"
        )
    if form == "json":
        print(json.dumps(plain(rows), indent=2))
    elif form == "csv":
        from rl_lightning.experiments.export import to_csv

        columns = list(rows[0]) if rows else list(COLUMNS)
        print(to_csv(Table(columns, [[row.get(c) for c in columns] for row in rows])), end="")
    elif not rows:
        print(nothing)
    else:
        print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """Columns as wide as they need; lines are cut at the terminal's edge."""
    text = aligned(Table(list(rows[0]), [[_score(value) for value in row.values()] for row in rows]))
    if not sys.stdout.isatty():
        return text
    edge = shutil.get_terminal_size((140, 20)).columns
    return "\n".join(line if len(line) <= edge else line[: edge - 1] + "…" for line in text.splitlines())


def _score(value: Any) -> Any:
    return f"{value:.1f}" if isinstance(value, float) and abs(value) >= 10 else value
