"""`rl report`: runs or groups on one page that can be sent to somebody, read on a phone, and printed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rl_lightning.analysis.atari_table import METRIC, atari_tables
from rl_lightning.analysis.compare import Comparison
from rl_lightning.analysis.plot import svg_uri
from rl_lightning.analysis.report.report_page import RunPart, ScorePart, page
from rl_lightning.analysis.report.run_cards import folded
from rl_lightning.analysis.report.training_curves import training_curves
from rl_lightning.analysis.stats_table import Table, improvement_table, score_tables, settings_table
from rl_lightning.errors import ResumeError
from rl_lightning.redaction import without_secrets
from rl_lightning.runs.store.run_folder import Run, now
from rl_lightning.version import version

VIDEO_BYTES = 4_000_000  # of one
ALL_VIDEO_BYTES = 24_000_000  # of a page
CONFIG_BYTES = 200_000
FACTS = (
    "algorithm", "env", "seed", "group", "status", "env_step", "update", "best", "best_at", "last10",
    "created", "updated", "config_hash", "threads", "python", "platform",
)  # fmt: skip


def report(
    result: Comparison,
    groups: Mapping[str, Sequence[Run]],
    title: str | None = None,
    stages: Sequence[Table] = (),
) -> str:
    """The page, as one text; `stages` are the tables of the pipelines among what it is about."""
    scores = []
    for metric, first in zip(result.metrics, score_tables(result), strict=True):
        tables: list[Table] = [first]
        if len(result.names) > 2:
            tables.append(improvement_table(result, metric))
        if metric == METRIC:
            tables += atari_tables(groups)
        scores.append(ScorePart(metric, svg_uri(result.bands[metric], metric), tables))
    table_notes = {note for score in scores for table in score.tables for note in table.notes}
    runs: dict[Path, Run] = {run.folder: run for members in groups.values() for run in members}
    budget = [ALL_VIDEO_BYTES]
    return page(
        title or " · ".join(result.names[:6]) + (" ..." if len(result.names) > 6 else ""),
        f"made {now()} by rl_lightning {version()} · {len(runs)} runs",
        scores,
        settings_table(result, limit=None),
        folded([(same_config(run), run_part(run, budget)) for run in runs.values()]),
        [note for note in result.notes if note not in table_notes],
        stages,
        training_curves(groups, result.metrics),
    )


def same_config(run: Run) -> str:
    """Equal for runs that differ in nothing but their seed."""
    try:
        return str(run.read().get("config_hash") or run.folder)
    except ResumeError:
        return str(run.folder)


def run_part(run: Run, budget: list[int]) -> RunPart:
    """Facts, config and videos of one run; `budget` is what is left for the page's videos, in bytes."""
    try:
        record = run.read()
    except ResumeError as error:
        return RunPart(run.command_name, [("record", str(error))], _config(run), [])
    facts: list[tuple[str, Any]] = [
        (key, record[key]) for key in FACTS if record.get(key) not in (None, "", [])
    ]
    command = record.get("command")
    if isinstance(command, list):
        facts.append(("command", " ".join(map(str, command))))
    for key in ("git", "versions"):
        if isinstance(record.get(key), dict):
            facts.append((key, " · ".join(f"{name} {value}" for name, value in record[key].items() if value)))
    return RunPart(run.command_name, facts, _config(run), videos(run, budget))


def _config(run: Run) -> str:
    try:
        with open(run.config_file, "rb") as file:
            return without_secrets(file.read(CONFIG_BYTES).decode("utf-8", "replace"))
    except OSError:
        return "(no config.yaml)"


def videos(run: Run, budget: list[int]) -> list[tuple[str, str]]:
    """The newest films of a run as data: URIs while they are small; the rest by name."""
    folder = run.folder / "videos"
    if not folder.is_dir():
        return []
    files = [path for path in folder.rglob("*.mp4") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: (path.stat().st_mtime, path.name), reverse=True)
    entries: list[tuple[str, str]] = []
    for path in files:
        name, size = str(path.relative_to(run.folder)), path.stat().st_size
        if size <= min(VIDEO_BYTES, budget[0]) and len(entries) < 3:
            budget[0] -= size
            entries.append(
                (name, "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode("ascii"))
            )
        else:
            entries.append((f"{name} ({size / 1e6:.1f} MB) is too large or one too many for this page", ""))
    return entries[:6]
