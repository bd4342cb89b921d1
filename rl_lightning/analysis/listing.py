"""`rl list`: runs, groups, pipelines, configs, algorithms and envs as a table, JSON or CSV. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rl_lightning.analysis.export.tables import to_csv
from rl_lightning.analysis.stats_table import MARK, Table, aligned, plain
from rl_lightning.errors import ConfigError
from rl_lightning.io.score_counts import LAST
from rl_lightning.io.text import score
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.compose import shipped
from rl_lightning.runs.store.index import Index, RunEntry
from rl_lightning.runs.store.run_filters import keep, order, parse_condition, value_of

KINDS = ("configs", "algorithms", "envs", "runs", "groups", "pipelines")
FORMATS = ("table", "text", "json", "csv")
COLUMNS = ("name", "algorithm", "env", "seed", "status", "env_step", "best", "last10")
Row = dict[str, Any]


@dataclass
class RunQuery:
    """Which runs, in which order, with which columns.

    Args:
        filters: Conditions that a run fulfils, as --filter takes them.
        sort: Key to sort by; null: newest first.
        reverse: The other way round.
        limit: At most so many; null: all.
        columns: Keys to show; none: the usual ones.
    """

    filters: list[str] = field(default_factory=list)
    sort: str | None = None
    reverse: bool = False
    limit: int | None = None
    columns: list[str] = field(default_factory=list)


def check_format(form: str) -> str:
    if form not in FORMATS:
        raise ConfigError(f"--format takes table, json or csv, not '{form}'")
    return form


def list_runs(kind: str, query: RunQuery, form: str = "table", edge: int | None = None) -> str:
    """Runs, groups or pipelines as text.

    Args:
        kind: runs, groups or pipelines.
        query: Which of them.
        form: table, json or csv.
        edge: Column at which lines of a table are cut; null: nowhere.
    """
    with Index() as index:
        everything = index.runs()
        wanted = [run for run in everything if run.is_stage == (kind == "pipelines") or run.is_pipeline]
        runs = keep(wanted, [parse_condition(text) for text in query.filters])
        newest = sorted(runs, key=lambda run: str(run.record.get("created") or ""), reverse=not query.reverse)
        runs = order(runs, query.sort, query.reverse) if query.sort else newest
        if kind == "groups":
            rows = group_rows(runs)[: query.limit]
        elif kind == "pipelines":
            rows = stage_rows(runs[: query.limit], form)
        else:
            rows = run_rows(runs[: query.limit], query.columns, form)
    nothing = "no runs here yet; start one with: rl fit --config ppo/cartpole"
    if everything:
        nothing = f"no {kind} match" if kind == "runs" else f"no {kind} here"
    text = rows_text(rows, form, nothing, edge)
    marked = form == "table" and any(str(row.get("last10")).endswith(MARK) for row in rows)
    return f"{text}\n{MARK} of fewer than {LAST} evaluations" if marked else text


def list_names(kind: str, search: Sequence[str], form: str = "table", edge: int | None = None) -> str:
    """Configs, algorithms or envs that have every word searched for, as text."""
    rows = {"configs": config_rows, "algorithms": algorithm_rows, "envs": env_rows}[kind]()
    chosen = [
        row
        for row in rows
        if all(word.lower() in " ".join(map(str, row.values())).lower() for word in search)
    ]
    return rows_text(chosen, form, f"nothing among {len(rows)} {kind} has '{' '.join(search)}'", edge)


def run_rows(runs: Sequence[RunEntry], columns: Sequence[str] = (), form: str = "table") -> list[Row]:
    if form == "json" and not columns:
        return [{"name": run.name, **run.record, **live(run)} for run in runs]
    rows = []
    usual = usual_columns(runs)
    for run in runs:
        known = {"name": run.name, **run.record, **live(run), "dataset": dataset_of(run)}
        row = {c: value_of(run, c) if columns else known.get(c) for c in columns or usual}
        if not columns and run.is_pipeline:
            row["algorithm"] = "pipeline"
        if not columns and known.get("progress") is not None and form != "csv":
            row["status"] = f"{run.status} {known['progress']:.0%}"
        last10 = row.get("last10")
        if form == "table" and is_few_of_ten(run) and isinstance(last10, float):
            row["last10"] = score(last10) + MARK
        rows.append(row)
    return rows


def is_few_of_ten(run: RunEntry) -> bool:
    """Whether a run has not been evaluated ten times: its last-10 mean is that of fewer."""
    return bool((run.record.get("last10_of") or LAST) < LAST)


def usual_columns(runs: Sequence[RunEntry]) -> list[str]:
    """Those of COLUMNS, and, where some run learns from recorded data, which data and how many updates."""
    columns = list(COLUMNS)
    if any(dataset_of(run) for run in runs):
        columns.insert(columns.index("env") + 1, "dataset")
    if any(run.record.get("update") and not run.record.get("env_step") for run in runs):
        columns.insert(columns.index("env_step") + 1, "update")
    return columns


def dataset_of(run: RunEntry) -> str | None:
    data = run.record.get("data")
    return str(data["name"]) if isinstance(data, dict) and data.get("name") else None


def live(run: RunEntry) -> Row:
    """What a running run has reached by now; its record is older than its metrics."""
    if run.status != "running":
        return {"status": run.status}
    metrics, config = run.metrics, run.config
    reached: Row = {"status": run.status}
    reached |= {clock: int(metrics[clock]) for clock in ("env_step", "update") if clock in metrics}
    for clock, budget in (("env_step", "run.env_steps"), ("update", "run.updates")):
        total = config.get(budget)
        if isinstance(total, int) and total > 0 and clock in reached:
            reached["progress"] = round(min(1.0, reached[clock] / total), 4)
            break
    return reached


def group_rows(runs: Sequence[RunEntry]) -> list[Row]:
    """Groups of seeds with the means of their scores."""
    groups: dict[str, list[RunEntry]] = {}
    for run in runs:
        if run.record.get("group"):
            groups.setdefault(str(run.record["group"]), []).append(run)
    rows = []
    for name, members in groups.items():
        row: Row = {"group": name}
        for key in ("algorithm", "env"):
            row[key] = ", ".join(dict.fromkeys(str(run.record.get(key)) for run in members))
        row |= {"runs": len(members), "finished": sum(run.status == "finished" for run in members)}
        for key in ("best", "last10"):
            values = [run.record[key] for run in members if isinstance(run.record.get(key), int | float)]
            row[key] = sum(values) / len(values) if values else None
        rows.append(row)
    return rows


def stage_rows(runs: Sequence[RunEntry], form: str = "table") -> list[Row]:
    """Pipelines in the given order, each followed by its stages as they were begun."""
    rows = []
    places = {name: place for place, name in enumerate(dict.fromkeys(whole_of(run) for run in runs))}
    for run in sorted(
        runs, key=lambda run: (places[whole_of(run)], run.is_stage, str(run.record.get("created") or ""))
    ):
        row = {c: run.record.get(c) for c in ("algorithm", "env", "env_step", "update", "best", "last10")}
        row["dataset"] = dataset_of(run)
        row |= {"algorithm": "pipeline"} if run.is_pipeline else {}
        if form == "table" and is_few_of_ten(run) and isinstance(row["last10"], float):
            row["last10"] = score(row["last10"]) + MARK
        rows.append({"name": run.name, "status": run.status, **row})
    return rows


def whole_of(run: RunEntry) -> str:
    """The pipeline that a stage belongs to."""
    return run.name.partition("/")[0]


def config_rows() -> list[Row]:
    """Name and first comment line of every shipped config."""
    rows = []
    for name, path in shipped().items():
        with open(path, encoding="utf-8") as file:
            first = file.readline().strip()
        rows.append({"config": name, "what": first.lstrip("# ").strip() if first.startswith("#") else ""})
    return rows


def algorithm_rows() -> list[Row]:
    return [{"algorithm": entry.name, "what": entry.doc} for entry in catalog.algorithms()]


def env_rows() -> list[Row]:
    from rl_lightning.analysis.env_index import environments

    return [{"env": name, "suite": suite, "needs": needs} for name, suite, needs in environments()]


def rows_text(rows: list[Row], form: str = "table", nothing: str = "", edge: int | None = None) -> str:
    """Rows as a table, JSON or CSV; `nothing` stands for a table without rows."""
    if form == "json":
        return json.dumps(plain(rows), indent=2)
    if form == "csv":
        columns = list(rows[0]) if rows else list(COLUMNS)
        return to_csv(Table(columns, [[row.get(c) for c in columns] for row in rows])).removesuffix("\n")
    return table(rows, edge) if rows else nothing


def table(rows: Sequence[Row], edge: int | None = None) -> str:
    """Columns as wide as they need; lines are cut at the edge."""
    text = aligned(Table(list(rows[0]), [[_score(value) for value in row.values()] for row in rows]))
    if edge is None:
        return text
    return "\n".join(line if len(line) <= edge else line[: edge - 1] + "…" for line in text.splitlines())


def _score(value: Any) -> Any:
    return score(value) if isinstance(value, float) and abs(value) >= 10 else value
