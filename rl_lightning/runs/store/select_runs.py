"""What a user names on a command line, as groups of runs: a group of seeds, a run, a pipeline, a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.index import Index, RunEntry
from rl_lightning.runs.store.metrics_file import header, real_name
from rl_lightning.runs.store.run_folder import Run, resolve


def select_runs(
    words: Iterable[str], index: Index | None = None, metrics: Sequence[str] = ()
) -> dict[str, list[Run]]:
    """The runs that each word stands for, by label.

    A pipeline alone stands for its stages that have the metrics, several for the last stage of each. RUN/STAGE is a
    stage, of a group of seeds that of every seed.
    """
    listed, words = (index or Index()).runs(), list(words)
    if len(words) == 1 and metrics:
        words = _stages(words[0], listed, metrics) or words
    groups: dict[str, list[Run]] = {}
    for word in words:
        members = _members(word, listed)
        label = word.rstrip("/") or word
        if not members:
            run = resolve(word)
            members, label = [run], run.name if run.name not in groups else label
        groups[label] = [last_stage(run) for run in members]
    return groups


def _members(word: str, listed: Sequence[RunEntry]) -> list[Run]:
    """Runs of a group; or a run; or, where neither is called so, runs that are called so but for their seed."""
    group = [run for run in listed if run.record.get("group") == word and not run.is_stage]
    named = [run for run in listed if run.name == word]
    pattern = re.compile(re.escape(word) + r"-s(\d+)")
    seeds = [] if group or named else [run for run in listed if pattern.fullmatch(run.name)]
    seeds.sort(key=lambda run: int(run.name.rpartition("-s")[2]))
    there = [run.run for run in (sorted(group, key=lambda run: run.name) or named or seeds)]
    whole, _, stage = word.rstrip("/").rpartition("/")
    if there or not whole:
        return there
    return [one for one in (stage_run(run, stage) for run in _members(whole, listed)) if one is not None]


def stage_run(pipeline: Run, stage: str) -> Run | None:
    """A stage of a pipeline by its name; of several cycles the newest."""
    keys = _jobs(pipeline)
    same = [key for key in keys if key == stage] or [key for key in keys if _name(key) == stage]
    return Run(pipeline.folder / same[-1]) if same else None


def stage_runs(pipeline: Run) -> list[Run]:
    """Those of a pipeline's jobs that have metrics, in their order."""
    runs = [Run(pipeline.folder / Path(key).name) for key in _jobs(pipeline)]
    return [run for run in runs if (run.folder / "metrics.csv").exists()]


def _name(key: str) -> str:
    """Of the stage that a job belongs to: the number of its cycle stands behind a dash."""
    return key.partition("-")[0]


def _jobs(pipeline: Run) -> list[str]:
    """Keys of a pipeline's jobs in their order; none where its ledger cannot be read."""
    try:
        return list(json.loads((pipeline.folder / "pipeline.json").read_text(encoding="utf-8"))["jobs"])
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _stages(word: str, listed: Sequence[RunEntry], metrics: Sequence[str]) -> list[str]:
    """RUN/STAGE of every stage of a pipeline, or of a group of them, that has what its last one has of the metrics."""
    members = _members(word, listed)
    names = list(dict.fromkeys(_name(key) for run in members[:1] for key in _jobs(run)))
    columns = {name: _columns(stage_run(members[0], name), metrics) for name in names}
    whole = [names for names in columns.values() if names and all(names)]
    return [f"{word}/{name}" for name, own in columns.items() if whole and own == whole[-1]]


def _columns(run: Run | None, metrics: Sequence[str]) -> list[str | None]:
    """What the metrics are called in a run."""
    try:
        there = [] if run is None else header(run.folder / "metrics.csv")
    except OSError:
        there = []
    return [real_name(metric, there) for metric in metrics]


def last_stage(run: Run) -> Run:
    """A run itself; of a pipeline, the last stage that has metrics, for that is where its policy is."""
    if (run.folder / "metrics.csv").exists():
        return run
    done = stage_runs(run)
    return done[-1] if done else run


def several(words: Sequence[str], command: str) -> Sequence[str]:
    if not words:
        raise ConfigError(f"rl {command} needs runs or groups; see them with: rl list")
    return words
