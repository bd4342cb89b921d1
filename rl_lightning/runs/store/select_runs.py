"""What a user names on a command line, as groups of runs: a group of seeds, a run, a pipeline, a folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rl_lightning.errors import ConfigError
from rl_lightning.runs.store.index import Index, RunEntry
from rl_lightning.runs.store.run_folder import Run, resolve


def select_runs(words: Iterable[str], index: Index | None = None) -> dict[str, list[Run]]:
    """The runs that each word stands for, by label; of a pipeline, its last stage that has metrics."""
    listed = (index or Index()).runs()
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
    return [run.run for run in (sorted(group, key=lambda run: run.name) or named or seeds)]


def last_stage(run: Run) -> Run:
    """A run itself; of a pipeline, the last stage that has metrics, for that is where its policy is."""
    ledger = run.folder / "pipeline.json"
    if (run.folder / "metrics.csv").exists() or not ledger.is_file():
        return run
    try:
        jobs = json.loads(ledger.read_text(encoding="utf-8"))["jobs"]
        stages = [Run(run.folder / Path(key).name) for key in jobs]
    except (OSError, ValueError, KeyError, TypeError):
        return run
    done = [stage for stage in stages if (stage.folder / "metrics.csv").exists()]
    return done[-1] if done else run


def several(words: Sequence[str], command: str) -> Sequence[str]:
    if not words:
        raise ConfigError(f"rl {command} needs runs or groups; see them with: rl list")
    return words
