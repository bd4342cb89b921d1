"""A pipeline in one table: its stages, what each has come to and how long it took; over seeds, stages x seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rl_lightning.analysis.stats_table import Table, aligned
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.functional.score_statistics import mean, std
from rl_lightning.io.score_counts import LAST
from rl_lightning.io.text import clock_time, counted, score
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.store.run_folder import Run, group_of, resolve_group


class StageSummary(NamedTuple):
    """One stage of a pipeline; of several cycles, the newest.

    Args:
        name: Of the stage.
        cycles: How often it was done.
        record: run.json of the newest.
        status: done, or how it stands.
        seconds: Of all cycles.
    """

    name: str
    cycles: int
    record: dict[str, Any]
    status: str
    seconds: float

    @property
    def value(self) -> float | None:
        """Its score: of the final evaluation, else the mean of the last ten, of a model its best evaluation."""
        final = self.record.get("final") or {}
        plays = self.record.get("last10_of") is not None and self.record.get("evaluated_on") != "rows"
        value = final.get("mean", self.record.get("last10" if plays else "best"))
        return None if value is None else float(value)

    def shown(self) -> tuple[str, str]:
        """The score, and what it is of."""
        final = self.record.get("final")
        if self.value is None:
            return "-", self.status if self.status != "done" else ""
        text = score(self.value, abs(self.value))
        if not final:
            count = int(self.record.get("last10_of") or LAST)
            mean_of = "last-10 mean" if count >= LAST else f"mean of {counted(count, 'evaluation')}"
            return text, "best evaluation" if self.record.get("evaluated_on") == "rows" else mean_of
        spread = f"{text} ± {score(final['std'], abs(self.value))}"
        normalized = final.get("normalized_score")
        where = " in the model" if final.get("evaluated_in") else ""
        return spread, f"{final['episodes']} episodes{where}" + (
            "" if normalized is None else f", normalized {normalized:.1f}"
        )


def stages_of(run: Run) -> list[StageSummary]:
    """In the order in which they ran."""
    jobs = Ledger(run.folder / "pipeline.json").read()
    by_name: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for key, entry in jobs.items():
        by_name.setdefault(stage_of(key), []).append((key, entry))
    return [_summary(run, name, entries) for name, entries in by_name.items()]


def stage_of(key: str) -> str:
    """The stage of a job: the number of its cycle stands behind a dash, which no stage's name has."""
    return key.partition("-")[0]


def _summary(run: Run, name: str, entries: list[tuple[str, dict[str, Any]]]) -> StageSummary:
    key, newest = entries[-1]
    try:
        record = Run(run.folder / key).read()
    except ResumeError:
        record = {}
    seconds = sum(float(entry.get("seconds") or 0.0) for _, entry in entries)
    return StageSummary(name, len(entries), record, str(newest.get("status", "")), seconds)


def stage_table(run: Run) -> Table:
    """Stages, scores, times."""
    rows = []
    stages = stages_of(run)
    for stage in stages:
        name = stage.name if stage.cycles == 1 else f"{stage.name} ({stage.cycles} cycles)"
        time = clock_time(stage.seconds) if stage.seconds else "-"
        rows.append([name, stage.record.get("algorithm") or "-", *stage.shown(), time])
    whole = clock_time(sum(stage.seconds for stage in stages))
    return Table(["stage", "algorithm", "score", "of", "time"], rows, run.name, [f"in all {whole}"])


def stages_over_seeds(name: str, runs: Sequence[Run]) -> Table:
    """The score of every stage with every seed, their mean and standard deviation."""
    summaries = [{stage.name: stage for stage in stages_of(run)} for run in runs]
    seeds = [f"s{run.name.rpartition('-s')[2]}" for run in runs]
    names = list(dict.fromkeys(stage for stages in summaries for stage in stages))
    rows = []
    for stage in names:
        values = [stages[stage].value if stage in stages else None for stages in summaries]
        there = [value for value in values if value is not None]
        scale = max(map(abs, there), default=1.0)
        cells = ["-" if value is None else score(value, scale) for value in values]
        spread = [score(mean(there), scale), score(std(there), scale)] if len(there) > 1 else ["-", "-"]
        rows.append([stage, *cells, *spread])
    return Table(["stage", *seeds, "mean", "std"], rows, f"{name}: score of each stage by seed")


def pipeline_table(name: str) -> Table | None:
    """The table of a pipeline, or of a group of them over seeds; None of any other run."""
    runs = [run for run in _runs(name) if (run.folder / "pipeline.json").is_file()]
    if not runs:
        return None
    return stage_table(runs[0]) if group_of(name) is None else stages_over_seeds(name, runs)


def _runs(name: str) -> list[Run]:
    try:
        return resolve_group(name)
    except ConfigError:  # RUN/STAGE of a group
        return []


def pipeline_text(name: str) -> str:
    """The same for a terminal."""
    table = pipeline_table(name)
    return "" if table is None else aligned(table)
