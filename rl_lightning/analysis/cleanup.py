"""Makes room: takes checkpoints, films and event files from runs that nobody needs any more.

Configs, records and metrics stay, so that every number can still be shown and every run be made again. Not touched at
all are runs that run, runs whose weights another run takes, the best ones, recent ones, and whatever a link leads to.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl_lightning.io.atomic import write_json
from rl_lightning.io.text import file_size, printable
from rl_lightning.runs.store.index import Index, RunEntry
from rl_lightning.runs.store.metrics_file import lower_is_better
from rl_lightning.runs.store.run_filters import value_of
from rl_lightning.runs.store.run_folder import RECORD, Run, now

# What goes. All else in a run's folder is small, or the user's own.
FOLDERS = ("checkpoints", "artifact", "videos", "wandb", "replay", ".artifact.tmp", "profile")
FILES = ("events.out.tfevents.", "predictions.npz")
ACTIVE = ("running", "started")


@dataclass
class CleanupPlan:
    """What would be taken, and why the rest stays.

    Args:
        to_delete: Runs, each with the paths that go.
        kept_because: Name of a run and the reason that it stays whole.
        size: Bytes that would be free.
    """

    to_delete: dict[str, list[Path]] = field(default_factory=dict)
    kept_because: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def __str__(self) -> str:
        lines = [f"kept   {printable(name)}: {reason}" for name, reason in self.kept_because.items()]
        for name, paths in self.to_delete.items():
            lines.append(f"clean  {printable(name)}: {_listed(paths)}")
        total = f"{len(self.to_delete)} runs to clean, {file_size(self.size)}"
        return "\n".join([*lines, f"{total}; configs, records and metrics stay"])


def _listed(paths: Sequence[Path]) -> str:
    """What goes, each kind once; of a pipeline that of all its stages."""
    kinds = ["events" if path.name.startswith("events.") else path.name for path in paths]
    return ", ".join(dict.fromkeys(kinds))


def plan(index: Index, best: int | None, recent_days: float | None, metric: str = "last10") -> CleanupPlan:
    """Decides on every run.

    Args:
        index: The runs.
        best: So many of each task stay by their score; null: none for that reason.
        recent_days: Runs that changed within so many days stay; null: none for that reason.
        metric: What the best are chosen by: last10, best, or the newest value of a metric.
    """
    everything = index.runs()
    listed = [run for run in everything if not run.is_stage]
    stages = [run for run in everything if run.is_stage]
    taken = taken_by_others(index, everything)
    winners = best_of_each_task(listed, stages, best or 0, metric)
    result = CleanupPlan()
    for run in listed:
        reason = _reason(run, stages, taken, winners, recent_days)
        paths = [] if reason else removable(run.folder)
        if reason:
            result.kept_because[run.name] = reason
        elif paths:
            result.to_delete[run.name] = paths
            result.size += sum(size_of(path) for path in paths)
    return result


def _reason(
    run: RunEntry, stages: Sequence[RunEntry], taken: dict[str, str], winners: set[str], days: float | None
) -> str:
    parts = [run, *(stage for stage in stages if stage.name.startswith(run.name + "/"))]
    if run.folder.is_symlink():
        return "is a link"
    if any(part.status in ACTIVE and not _abandoned(part) for part in parts):
        return "is running"
    if run.record.get("status") == "damaged":
        return "has a record that cannot be read"
    if run.name in taken:
        return f"is taken by {taken[run.name]}"
    if run.name in winners:
        return "is one of the best"
    if days is not None and any(age_in_days(part) < days for part in parts):
        return "is recent"
    return ""


def _abandoned(run: RunEntry) -> bool:
    """A run that never got to training and has no process: its record says `started` for ever."""
    return run.record.get("status") == "started" and not run.record.get("pid") and age_in_days(run) > 1


def age_in_days(run: RunEntry) -> float:
    """Days since a run last said something, by its record and by its files; the younger counts."""
    moments = [_moment(run.record.get(key)) for key in ("updated", "created")]
    for name in (RECORD, "metrics.csv", "config.yaml"):
        with contextlib.suppress(OSError):
            moments.append((run.folder / name).stat().st_mtime if not run.record.get("cleaned") else None)
    known = [moment for moment in moments if moment is not None]
    return (datetime.now(UTC).timestamp() - max(known, default=0.0)) / 86400


def _moment(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def best_of_each_task(
    runs: Sequence[RunEntry], stages: Sequence[RunEntry], count: int, metric: str
) -> set[str]:
    """Names of the best runs; scores of different tasks are never held against each other."""
    by_task: dict[str, list[tuple[float, str]]] = {}
    for part in (*(run for run in runs if not run.is_pipeline), *stages):
        value = value_of(part, metric)
        value = part.record.get("best") if value is None and metric == "last10" else value
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value:
            task = str(value_of(part, "data.dataset") or part.record.get("env"))
            score = -float(value) if lower_is_better(metric) else float(value)
            by_task.setdefault(task, []).append((score, part.name.split("/")[0]))
    best: set[str] = set()
    for scored in by_task.values():
        names = list(dict.fromkeys(name for _, name in sorted(scored, key=lambda pair: (-pair[0], pair[1]))))
        best |= set(names[:count])
    return best


def taken_by_others(index: Index, runs: Iterable[RunEntry]) -> dict[str, str]:
    """Runs that some other run's config names, by name or by a path into their folder, and who does."""
    runs = list(runs)
    names = {run.name for run in runs if not run.is_stage}
    root = os.path.realpath(index.root)
    users: dict[str, str] = {}
    for run in runs:
        own = run.name.split("/")[0]
        for value in (*run.config.values(), run.record.get("command")):
            for text in value if isinstance(value, list) else [value]:
                target = _run_named(text, names, root) if isinstance(text, str) else None
                if target is not None and target != own:
                    users.setdefault(target, run.name)
    return users


def _run_named(text: str, names: set[str], root: str) -> str | None:
    """The run that a word names: itself, or a path into its folder from here, from the logs or from beside them."""
    if text.startswith("--"):
        text = text.partition("=")[2]
    if not text or "\0" in text:
        return None
    head = text.split("/")[0]
    if head in names:
        return head
    if "/" not in text:
        return None
    for place in (os.path.expanduser(text), os.path.join(root, text), os.path.join(root, "..", text)):
        real = os.path.realpath(place)  # a link on the shelf leads to the artifact itself
        name = real[len(root) + 1 :].split(os.sep)[0] if real.startswith(root + os.sep) else ""
        if name in names:
            return name
    return None


def removable(folder: Path) -> list[Path]:
    """What may go from a run's folder and from those of its stages. Links stay where they are."""
    paths: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_symlink():
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name in FOLDERS:
                    paths.append(Path(entry.path))
                elif os.path.isfile(os.path.join(entry.path, RECORD)):
                    paths += removable(Path(entry.path))  # a stage
            elif entry.name.startswith(FILES):
                paths.append(Path(entry.path))
    return paths


def size_of(path: Path) -> int:
    """Bytes of a file or of a folder, links not followed."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        with os.scandir(path) as entries:
            return sum(size_of(Path(entry.path)) for entry in entries)
    except OSError:
        return 0


def carry_out(decided: CleanupPlan, index: Index, shelves: Sequence[Path] = ()) -> list[str]:
    """Takes what was decided; returns the runs that were left alone after all, with the reason."""
    left = []
    for name, paths in decided.to_delete.items():
        run = Run(index.root / name)
        now_listed = RunEntry(Index(index.root), name, run.folder, run.read())
        if now_listed.status in ACTIVE and not _abandoned(now_listed):
            left.append(f"{name}: has been started again")
            continue
        for path in paths:
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(
                    missing_ok=True
                )
            except OSError as error:
                left.append(f"{path}: {error.strerror or error}")
        # not by Run.update: a cleaned run has not become recent
        write_json(run.folder / RECORD, {**run.read(), "cleaned": now()}, default=str)
    for shelf in shelves:
        _drop_dead_links(shelf, index.root)
    return left


def _drop_dead_links(shelf: Path, root: Path) -> None:
    """Links on the shelf whose artifact has just gone."""
    inside = os.path.realpath(root) + os.sep
    with contextlib.suppress(OSError):
        for link in shelf.iterdir():
            if link.is_symlink() and not link.exists() and os.path.realpath(link).startswith(inside):
                link.unlink()
