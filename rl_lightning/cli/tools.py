"""Commands that look at things: list, doctor, plot. None of them needs torch."""

from __future__ import annotations

from typing import Any

from rl_lightning.cli import listing
from rl_lightning.cli.flags import parse
from rl_lightning.cli.outputs import PICTURES, output_file
from rl_lightning.errors import ConfigError
from rl_lightning.experiments import catalog
from rl_lightning.experiments.names import did_you_mean
from rl_lightning.experiments.select import choose

table = listing.table
KINDS = ("configs", "algorithms", "envs", "runs", "groups", "pipelines")


def list_things(words: list[str]) -> int:
    parsed = parse(words, takes=listing.LIST_TAKES, switches=("reverse",), command="list")
    kind, search = (parsed.words[0], parsed.words[1:]) if parsed.words else ("runs", [])
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"; one of: {', '.join(KINDS)}"
        raise ConfigError(f"rl list knows no '{kind}'{hint}")
    form = parsed.get("format") or "table"
    if form not in listing.LIST_FORMATS:
        raise ConfigError(f"--format takes table, json or csv, not '{form}'")
    if kind in listing.ROWS:
        return listing.list_runs(parsed, kind)
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
    listing.show_rows(wanted, form, f"nothing among {len(rows)} {kind} has '{' '.join(search)}'")
    return 0


def config_rows() -> list[dict[str, Any]]:
    """Name and first comment line of every shipped config."""
    from rl_lightning.runs.config.compose import shipped

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
    chosen = [run for members in choose(parsed.words).values() for run in members]
    path = output_file(parsed.get("output"), chosen[0].folder / "curve.png", PICTURES)
    curves = [plots.read_curve(run, metric) for run in chosen]
    print(plots.in_characters(curves, metric))
    print(f"\n{plots.save_png(curves, metric, path)}")
    return 0
