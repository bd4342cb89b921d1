"""`rl show RUN`: everything that is known of one run, and how to resume it. Needs no torch."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from rl_lightning.analysis.cleanup import size_of
from rl_lightning.analysis.listing import group_rows, live, rows_text, run_rows
from rl_lightning.analysis.stats_table import Table, aligned, plain, shown
from rl_lightning.errors import RLError
from rl_lightning.io.text import printable
from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.compose import compose, find, inline, shipped
from rl_lightning.runs.store.changed_settings import changed
from rl_lightning.runs.store.index import Index, RunEntry
from rl_lightning.runs.store.run_folder import resolve


def show_run(word: str, form: str = "text", edge: int | None = None) -> str:
    """A run, or a group of seeds, as text.

    Args:
        word: Its name or folder.
        form: text or json.
        edge: Column at which lines of a table are cut; null: nowhere.
    """
    with Index() as index:
        runs = index.runs()
        members = [run for run in runs if run.record.get("group") == word and not run.is_stage]
        if members and not any(run.name == word for run in runs):
            if form == "json":
                return rows_text(run_rows(members, form=form), form)
            tables = (group_rows(members), run_rows(members))
            return "\n\n".join(rows_text(rows, edge=edge) for rows in tables)
        run = next((run for run in runs if run.name == word.strip("/")), None) or _by_path(word, index)
        about = describe(run, [other for other in runs if other.name.startswith(run.name + "/")])
    return json.dumps(plain(about), indent=2) if form == "json" else as_text(about)


def _by_path(word: str, index: Index) -> RunEntry:
    run = resolve(word)
    return RunEntry(index, run.name, run.folder, run.read())


def describe(run: RunEntry, stages: list[RunEntry]) -> dict[str, Any]:
    """All of it, as plain values."""
    record = {**run.record, **live(run)}
    base, below = origin(record)
    return {
        "name": run.name,
        "folder": str(run.folder),
        "record": record,
        "scores": {key: record.get(key) for key in ("best", "best_at", "last10")} | tested(run.folder),
        "from": base,
        "differs": {key: list(pair) for key, pair in changed(run.config, below).items()},
        "metrics": run.metrics,
        "checkpoints": checkpoints(run.folder),
        "stages": [{"name": stage.name, **stage.record, "status": stage.status} for stage in stages],
        "next": next_steps(run, record),
    }


def origin(record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The shipped config that a run was started from, by its command line."""
    words = [str(word) for word in record.get("command") or []]
    config_names = [b for a, b in pairwise(words) if a in ("--config", "-c")]
    config_names += [word.partition("=")[2] for word in words if word.startswith("--config=")]
    for name in config_names:
        if name in shipped():
            try:
                config = compose([name])
                return name, inline(config, find(name).parent) if "stages" in config else config
            except RLError:  # a shipped config may need an environment variable that is not set here
                return name, {}
    return "", {}


def tested(folder: Path) -> dict[str, Any]:
    """What `rl test` found, if it was asked."""
    try:
        result = json.loads((folder / "test.json").read_text(encoding="utf-8"))
        keys = ("mean", "iqm", "low", "high", "checkpoint", "changed")
        return {"test": {key: result.get(key) for key in keys}} if "mean" in result else {}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def checkpoints(folder: Path) -> list[dict[str, Any]]:
    """Every checkpoint: where its clocks stood, how large and how old it is."""
    rows = []
    for path in sorted((folder / "checkpoints").glob("*")):
        is_generation = (path / "meta.json").is_file()
        if not is_generation and path.suffix != ".ckpt":
            continue
        side = path / "meta.json" if is_generation else path.with_suffix(".json")
        try:
            meta = json.loads(side.read_text(encoding="utf-8"))
            age = time.time() - path.stat().st_mtime
        except (OSError, ValueError):
            meta, age = {}, None
        clocks = {key: meta.get(key) for key in ("env_step", "update")} if isinstance(meta, dict) else {}
        name = path.name if is_generation else path.stem
        rows.append({"checkpoint": name, **clocks, "mb": size_of(path) / 1e6, "age_s": age})
    return rows


def next_steps(run: RunEntry, record: dict[str, Any]) -> list[str]:
    """What to type."""
    name, status = run.name, run.status
    if status == "running":
        return [f"rl watch {name}", f"rl plot {name}"]
    has_any = any((run.folder / "checkpoints").glob("*")) or run.is_pipeline
    if not has_any:
        return [f"no checkpoint is left; run it again with: rl fit --config {run.folder}/config.yaml"]
    if status != "finished":
        return [f"rl resume {name}"]
    budget = run.config.get("run.env_steps")
    more = [f"rl resume {name} --env_steps {2 * budget}"] if isinstance(budget, int) else []
    models = [entry.name for entry in catalog.children("algorithms", "ModelModule")]
    is_model, has_env = record.get("algorithm") in models, bool(record.get("env")) or run.is_pipeline
    verbs = ["play"] * (has_env and not is_model) + ["test"] * (has_env or is_model) + ["plot"]
    return [*more, *(f"rl {verb} {name}" for verb in verbs)]


def as_text(about: dict[str, Any]) -> str:
    record = about["record"]
    what = (record.get("algorithm") or record.get("kind"), record.get("env"))
    head = [about["name"], " on ".join(str(word) for word in what if word), _seed(record), _status(record)]
    lines = [
        " · ".join(printable(str(part)) for part in head if part),
        f"folder    {printable(about['folder'])}",
    ]
    lines.append(f"clocks    env_step {shown(record.get('env_step'))}, update {shown(record.get('update'))}")
    scores = about["scores"]
    if scores.get("best") is not None:
        at = f" (at {shown(scores['best_at'])})" if scores.get("best_at") is not None else ""
        lines.append(f"scores    best {shown(scores['best'])}{at}, last-10 {shown(scores['last10'])}")
    if scores.get("test"):
        test = scores["test"]
        around = f"({shown(test['low'])} to {shown(test['high'])})"
        lines.append(f"tested    mean {shown(test['mean'])} {around}, IQM {shown(test['iqm'])}")
        lines += [f"          with {change}" for change in test["changed"] or []]
    lines.append(f"when      created {shown(record.get('created'))}, updated {shown(record.get('updated'))}")
    if record.get("command"):
        lines.append(f"command   {printable(' '.join(map(str, record['command'])))}")
    flags = record.get("flags")
    for stage, words in flags.items() if isinstance(flags, dict) else ():  # they are not in config.yaml
        flags_line = f"{stage or 'all stages'}: {' '.join(map(str, words))}"
        lines += [f"flags     {printable(flags_line)}"] if words else []
    if isinstance(record.get("git"), dict):
        file = record["git"].get("diff_file")
        changes = " with changes" + (f" ({file})" if file else "") if record["git"].get("diff") else ""
        lines.append(f"code      commit {str(record['git'].get('commit'))[:12]}{changes}")
    parts = ["\n".join(lines), _differences(about)]
    if about["stages"]:
        columns = ["name", "status", "algorithm", "env_step", "update", "best", "last10"]
        rows = [[stage.get(column) for column in columns] for stage in about["stages"]]
        parts.append(aligned(Table(columns, rows, "stages")))
    if about["checkpoints"]:
        rows = [
            [c["checkpoint"], c.get("env_step"), c.get("update"), round(c["mb"], 2)]
            for c in about["checkpoints"]
        ]
        parts.append(aligned(Table(["checkpoint", "env_step", "update", "MB"], rows)))
    return "\n\n".join([*parts, "next      " + printable(" · ".join(about["next"]))])


def _seed(record: dict[str, Any]) -> str:
    return f"seed {record['seed']}" if record.get("seed") is not None else ""


def _status(record: dict[str, Any]) -> str:
    progress = f" {record['progress']:.0%}" if record.get("progress") is not None else ""
    where = f" on {record['host']}, process {record.get('pid')}" if record["status"] == "running" else ""
    return f"{record['status']}{progress}{where}"


def _differences(about: dict[str, Any]) -> str:
    base = about["from"] or "the defaults"
    if not about["differs"]:
        return f"nothing differs from {base}"
    rows = [[key, shown(before), shown(after)] for key, (before, after) in about["differs"].items()]
    return aligned(Table(["setting", base, "here"], rows, f"differs from {base}"))
