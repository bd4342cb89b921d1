"""Commands that look at things: list, doctor, plot. None of them needs torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from rl_lightning.cli.flags import Parsed, parse
from rl_lightning.errors import ConfigError
from rl_lightning.experiments import catalog, runs
from rl_lightning.experiments.names import did_you_mean

KINDS = ("configs", "algorithms", "envs", "runs")


def list_things(words: list[str]) -> int:
    parsed = parse(words, takes=("filter", "sort", "format"), command="list")
    if (parsed.get("format") or "text") not in ("text", "json"):
        raise ConfigError(f"--format takes text or json, not '{parsed.get('format')}'")
    kind, search = (parsed.words[0], parsed.words[1:]) if parsed.words else ("runs", [])
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"; one of: {', '.join(KINDS)}"
        raise ConfigError(f"rl list knows no '{kind}'{hint}")
    if kind == "runs":
        return _show(
            run_rows(parsed), parsed, "no runs here yet; start one with: rl fit --config ppo/cartpole"
        )
    if kind == "algorithms" and len(search) == 1 and catalog.find(search[0]):
        from rl_lightning.cli.help import class_help

        print(class_help(search[0], "model").lstrip())
        return 0
    rows = {"configs": config_rows, "algorithms": algorithm_rows, "envs": env_rows}[kind]()
    wanted = [
        row
        for row in rows
        if all(word.lower() in " ".join(map(str, row.values())).lower() for word in search)
    ]
    return _show(wanted, parsed, f"nothing among {len(rows)} {kind} has '{' '.join(search)}'")


def config_rows() -> list[dict[str, Any]]:
    """Name and first comment line of every shipped config."""
    from rl_lightning.cli.compose import shipped

    rows = []
    for name, path in shipped().items():
        with open(path, encoding="utf-8") as file:
            first = file.readline().strip()
        rows.append({"config": name, "what": first.lstrip("# ").strip() if first.startswith("#") else ""})
    return rows


def algorithm_rows() -> list[dict[str, Any]]:
    return [{"algorithm": entry.name, "what": entry.doc} for entry in catalog.algorithms()]


def env_rows() -> list[dict[str, Any]]:
    from rl_lightning.experiments.env_index import environments

    return [{"env": name, "suite": suite, "needs": needs} for name, suite, needs in environments()]


def run_rows(parsed: Parsed) -> list[dict[str, Any]]:
    records = [{"name": folder.name, **runs.Run(folder).read()} for folder in runs.folders()]
    for record in records:
        if record.get("status") == "running" and record.get("pid") and not runs.alive(record):
            record["status"] = "stopped"  # killed before it could say so; `rl resume` goes on
    for text in parsed.all("filter"):
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--filter takes KEY=VALUE, not '{text}'")
        records = [record for record in records if _matches(record.get(key), value)]
    key = {"eval/return": "best"}.get(parsed.get("sort") or "", parsed.get("sort") or "")
    if key:
        if records and not any(key in record for record in records):
            raise ConfigError(f"--sort {key}: no run has it{did_you_mean(key, records[0])}")
        records.sort(
            key=lambda record: _order(record.get(key)), reverse=key in ("best", "last10", "env_step")
        )
    if (parsed.get("format") or "text") == "json":
        return records
    columns = ("name", "algorithm", "env", "seed", "status", "env_step", "best", "last10")
    return [{column: record.get(column) for column in columns} for record in records]


def _matches(have: Any, wanted: str) -> bool:
    return any(str(item).lower() == wanted.lower() for item in (have if isinstance(have, list) else [have]))


def _order(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return 1, float(value), ""
    return 0, 0.0, str(value or "")


def _show(rows: list[dict[str, Any]], parsed: Parsed, nothing: str) -> int:
    if (parsed.get("format") or "text") == "json":
        print(json.dumps(rows, indent=2, default=str))
    elif not rows:
        print(nothing)
    else:
        print(table(rows))
    return 0


def table(rows: list[dict[str, Any]]) -> str:
    """Columns as wide as they need; the last one is cut at the terminal's edge."""
    columns = list(rows[0])
    cells = [[cell(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)]
    edge = shutil.get_terminal_size((140, 20)).columns if sys.stdout.isatty() else 10_000
    lines = []
    for line in [columns, *cells]:
        text = "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        lines.append(text if len(text) <= edge else text[: edge - 1] + "…")
    return "\n".join(lines)


def cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def doctor(words: list[str]) -> int:
    parsed = parse(words, switches=("deep",), command="doctor")
    if parsed.words:
        raise ConfigError(f"rl doctor takes no '{parsed.words[0]}'; see: rl doctor --help")
    from rl_lightning.experiments import doctor as checks

    findings = checks.report()
    if parsed.has("deep"):
        from rl_lightning.experiments.doctor_deep import deep_report

        findings += deep_report()
    marks = {"ok": "  ok ", "note": " note", "bad": "  BAD"}
    for finding in findings:
        print(f"{marks[finding.level]} {finding.text}")
        if finding.repair and finding.level != "ok":
            print(f"       -> {finding.repair}")
    bad = sum(finding.level == "bad" for finding in findings)
    print(f"{bad} to repair" if bad else "all is well")
    return 2 if bad else 0


def plot(words: list[str]) -> int:
    parsed = parse(words, takes=("metric", "output"), command="plot")
    if not parsed.words:
        raise ConfigError("rl plot needs a run; see them with: rl list")
    from rl_lightning.experiments import plot as plots

    metric = parsed.get("metric") or "eval/return"
    chosen = [run for word in parsed.words for run in runs.resolve_group(word)]
    curves = [plots.read_curve(run, metric) for run in chosen]
    print(plots.in_characters(curves, metric))
    output = parsed.get("output")
    path = plots.save_png(curves, metric, Path(output) if output else chosen[0].folder / "curve.png")
    print(f"\n{path}")
    return 0
