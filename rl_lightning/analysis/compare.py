"""Runs, or groups of seeds, side by side: scores with intervals, chances of improvement, what was set differently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_lightning.analysis.plot import Band, Curve, read_curve, save
from rl_lightning.analysis.stats_table import COLUMNS, as_text
from rl_lightning.errors import DataError, ResumeError
from rl_lightning.functional import score_statistics
from rl_lightning.io.score_counts import LAST, is_few
from rl_lightning.io.text import number, short
from rl_lightning.runs.store.flat_settings import read_settings, setting, varying
from rl_lightning.runs.store.index import Index
from rl_lightning.runs.store.metrics_file import ALIASES, header, lower_is_better, real_name
from rl_lightning.runs.store.names import slug
from rl_lightning.runs.store.select_runs import select_runs

if TYPE_CHECKING:
    from rl_lightning.runs.store.run_folder import Run

POINTS = 200  # of a band


@dataclass
class ComparisonGroup:
    """One group of runs and what one metric did in it.

    Args:
        name: As the user called it.
        curves: One per run.
        tasks: Env or data set of each run.
    """

    name: str
    curves: list[Curve]
    tasks: list[str]

    @property
    def seeds(self) -> bool:
        """Whether its spread is one over runs; that of a single run is over its last evaluations."""
        return len(self.curves) > 1

    @property
    def few(self) -> bool:
        """Whether its scores are shown themselves, as an interval over them would promise too much."""
        return is_few(len(self.curves))

    @property
    def short(self) -> bool:
        """Whether a run has fewer evaluations than the last ten."""
        return any(len(curve.y) < LAST for curve in self.curves)

    def values(self) -> list[float]:
        """The score of each run."""
        return [score_statistics.last_mean(curve.y) for curve in self.curves]

    def sample(self) -> dict[str, list[float]]:
        """The scores that statistics are made of, by task."""
        if not self.seeds:
            return {self.tasks[0]: self.curves[0].y[-LAST:]}
        scores: dict[str, list[float]] = {}
        for curve, task in zip(self.curves, self.tasks, strict=True):
            scores.setdefault(task, []).append(score_statistics.last_mean(curve.y, LAST))
        return scores


@dataclass
class Comparison:
    """What `rl compare` prints, `rl export` writes and `rl report` shows.

    Args:
        names: The groups, in the order given; the first is what the others are held against.
        metrics: As asked for.
        rows: One dict per metric and group, with COLUMNS.
        bands: Curves of each metric.
        improvement: Of each metric: chance that a group (first key) scores better than another (second).
        settings: Settings that differ, each with its value in every group.
        notes: What a reader must know.
    """

    names: list[str]
    metrics: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    bands: dict[str, list[Band]] = field(default_factory=dict)
    improvement: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return as_text(self)

    def export(self, form: str = "markdown") -> str:
        """As latex, csv, json or markdown."""
        from rl_lightning.analysis.export.tables import export

        return export(self, form)

    def plot(self, path: str | Path, metric: str | None = None) -> Path:
        """Curves with intervals of one metric, by default the first."""
        chosen = metric or self.metrics[0]
        return save(self.bands[chosen], chosen, Path(path))

    def plot_all(self, path: Path) -> list[Path]:
        """One picture per metric; several have the metric in their names."""
        if len(self.metrics) == 1:
            return [self.plot(path)]
        suffix = path.suffix or ".png"
        return [
            self.plot(path.with_name(f"{path.stem}-{slug(metric)}{suffix}"), metric)
            for metric in self.metrics
        ]


def compare_named(
    words: Sequence[str],
    metrics: Sequence[str],
    threshold: float | None = None,
    optimal: float | None = None,
    against: str | None = None,
) -> tuple[Comparison, dict[str, list[Run]]]:
    """Runs, groups or folders by their names: compared, and the runs that they stand for. See `compare`."""
    with Index() as index:
        groups = select_runs(words, index, metrics)
    return compare(groups, metrics, threshold, optimal, against), groups


def compare(
    groups: Mapping[str, Sequence[Run]],
    metrics: Sequence[str] = ("eval/return",),
    threshold: float | None = None,
    optimal: float | None = None,
    against: str | None = None,
) -> Comparison:
    """Everything about some groups of runs.

    Args:
        groups: Runs by the name of their group.
        metrics: Columns of metrics.csv; `reward` and `loss` are understood.
        threshold: Score that counts as reached; null: nine tenths of the way from the lowest to the highest seen.
        optimal: Score that the optimality gap is measured from; null: the best seen.
        against: Clock of the curves: env_step, update or time; null: each run's own.
    """
    result = Comparison(list(groups), [_own_name(metric, groups) for metric in metrics])
    settings = {name: [settings_of(run) for run in runs] for name, runs in groups.items()}
    tasks = {
        name: [task_of(*pair) for pair in zip(groups[name], settings[name], strict=True)] for name in groups
    }
    for metric in result.metrics:
        arms = [
            ComparisonGroup(name, [read_curve(run, metric, against) for run in runs], tasks[name])
            for name, runs in groups.items()
        ]
        _one_metric(result, metric, arms, threshold, optimal)
    result.settings = setting_differences(settings)
    result.notes = list(dict.fromkeys([*result.notes, *_cautions(groups, tasks)]))
    return result


def _own_name(metric: str, groups: Mapping[str, Sequence[Run]]) -> str:
    """What `reward` or `loss` is called in these runs, if it is called the same in all of them."""
    if metric not in ALIASES:
        return metric
    try:
        labels = {
            real_name(metric, header(run.folder / "metrics.csv")) for runs in groups.values() for run in runs
        }
    except OSError:  # told of when the curve is read
        return metric
    return labels.pop() or metric if len(labels) == 1 else metric


def _one_metric(
    result: Comparison,
    metric: str,
    arms: list[ComparisonGroup],
    threshold: float | None,
    optimal: float | None,
) -> None:
    lower = lower_is_better(metric)
    clocks = {curve.clock for arm in arms for curve in arm.curves}
    if len(clocks) > 1:
        raise DataError(
            f"the runs count by {' and '.join(sorted(clocks))}; choose one with --against, or time"
        )
    scores = [y for arm in arms for curve in arm.curves for y in curve.y]
    worst, top = (max(scores), min(scores)) if lower else (min(scores), max(scores))
    goal = worst + 0.9 * (top - worst) if threshold is None else threshold
    ideal = top if optimal is None else optimal
    start, end = common_range(arms)
    for arm in arms:
        row = _row(arm, lower, goal, ideal, start, end) | {"metric": metric}
        row |= _improvement(arm, arms[0], lower)
        result.rows.append({column: row.get(column) for column in COLUMNS})
    result.bands[metric] = [band(arm) for arm in arms]
    result.improvement[metric] = {
        a.name: {b.name: p for b in arms if b is not a and (p := chance(a, b, lower)) is not None}
        for a in arms
    }
    direction = " (lower is better)" if lower else ""
    clock = next(iter(clocks))
    result.notes.append(
        f"{metric}{direction}: gap to {number(ideal)}, {clock} until {number(goal)}, "
        f"auc is the mean from {clock} {short(start)} to {short(end)}"
    )


def _row(
    arm: ComparisonGroup, lower: bool, goal: float, ideal: float, start: float, end: float
) -> dict[str, Any]:
    strata = list(arm.sample().values())
    pooled = [value for values in strata for value in values]
    interval = None if arm.few else score_statistics.stratified_interval(strata, score_statistics.iqm)
    pick = min if lower else max
    places = [score_statistics.steps_to_threshold(curve.x, curve.y, goal, lower) for curve in arm.curves]
    reached = [place for place in places if place is not None]
    areas = [score_statistics.area_under_curve(curve.x, curve.y, start, end) for curve in arm.curves]
    return {
        "name": arm.name,
        "task": ", ".join(dict.fromkeys(arm.tasks)),
        "runs": len(arm.curves),
        "over": "runs" if arm.seeds else f"last {len(pooled)} values",
        "last10": score_statistics.mean(arm.values()),
        "best": score_statistics.mean([pick(curve.y) for curve in arm.curves]),
        "iqm": score_statistics.iqm(pooled),
        "iqm_low": None if interval is None else interval[0],
        "iqm_high": None if interval is None else interval[1],
        "median": score_statistics.median(pooled),
        "optimality_gap": score_statistics.optimality_gap(pooled, ideal, lower),
        "auc": score_statistics.mean(areas),
        # the median over all runs, so that one lucky seed of five does not make a group fast
        "steps_to_threshold": _median_reached(places),
        "reached": f"{len(reached)}/{len(places)}",
        "std": score_statistics.std(arm.values()),
        "values": arm.values(),
        "evaluations": min(len(curve.y) for curve in arm.curves),
    }


def _median_reached(places: Sequence[float | None]) -> float | None:
    middle = score_statistics.median([np.inf if place is None else place for place in places])
    return middle if np.isfinite(middle) else None


def _pairs(ours: ComparisonGroup, theirs: ComparisonGroup, lower: bool) -> tuple[list[Any], list[Any]] | None:
    a, b = ours.sample(), theirs.sample()
    if a.keys() != b.keys():
        return None
    sign = -1.0 if lower else 1.0
    return [np.multiply(sign, a[task]) for task in a], [np.multiply(sign, b[task]) for task in a]


def chance(ours: ComparisonGroup, theirs: ComparisonGroup, lower: bool) -> float | None:
    """Probability that ours scores better, averaged over tasks; None if their tasks differ."""
    pairs = _pairs(ours, theirs, lower)
    if pairs is None:
        return None
    return score_statistics.mean(
        [score_statistics.probability_of_improvement(x, y) for x, y in zip(*pairs, strict=True)]
    )


def _improvement(arm: ComparisonGroup, first: ComparisonGroup, lower: bool) -> dict[str, float]:
    pairs = None if arm is first else _pairs(arm, first, lower)
    if pairs is None:
        return {}
    estimate, low, high = score_statistics.improvement_interval(*pairs)
    if arm.few or first.few:
        return {"improvement": estimate}
    return {"improvement": estimate, "improvement_low": low, "improvement_high": high}


def common_range(arms: Sequence[ComparisonGroup]) -> tuple[float, float]:
    """Where all curves have values; the whole range if there is no such place."""
    curves = [curve for arm in arms for curve in arm.curves]
    start, end = max(curve.x[0] for curve in curves), min(curve.x[-1] for curve in curves)
    return (start, end) if start <= end else (min(c.x[0] for c in curves), max(c.x[-1] for c in curves))


def band(arm: ComparisonGroup) -> Band:
    """The mean of an arm's curves where all of them have values, with its 95% interval or each of the few."""
    if not arm.seeds:
        x, y = arm.curves[0].x, arm.curves[0].y
        return Band(arm.name, arm.curves[0].clock, x, y)
    start, end = common_range([arm])
    places = np.unique([x for curve in arm.curves for x in curve.x])
    places = places[(places >= start) & (places <= end)]
    if len(places) > POINTS or len(places) == 0:
        places = np.linspace(start, end, POINTS)
    rows = np.stack([np.interp(places, curve.x, curve.y) for curve in arm.curves])
    mean = rows.mean(axis=0)
    middle = Band(arm.name, arm.curves[0].clock, places.tolist(), mean.tolist(), runs=len(rows))
    if arm.few:
        return middle._replace(each=rows.tolist())
    low, high = score_statistics.curve_interval(rows)
    return middle._replace(low=np.minimum(low, mean).tolist(), high=np.maximum(high, mean).tolist())


def curves_of(groups: Mapping[str, Sequence[Run]], metric: str) -> list[Curve | Band]:
    """A curve for each run, and for each group of several its mean with its spread."""
    curves: list[Curve | Band] = []
    for name, runs in groups.items():
        members = [read_curve(run, metric) for run in runs]
        single = members[0]._replace(label=name)
        curves.append(
            single if len(members) == 1 else band(ComparisonGroup(name, members, [""] * len(members)))
        )
    clocks = sorted({curve.clock for curve in curves})
    if len(clocks) > 1:
        raise DataError(f"the runs count by {' and '.join(clocks)}; plot those of one clock together")
    return curves


def task_of(run: Run, settings: Mapping[str, Any]) -> str:
    """What a run's scores are scores of: its data set by its full name, or its env."""
    data = setting(dict(settings), "data.dataset")
    try:
        env = run.read().get("env")
    except ResumeError:  # a damaged record; the config says it too
        env = None
    return str(data or env or setting(dict(settings), "data.env.id") or "?")


def settings_of(run: Run) -> dict[str, Any]:
    """Those of its config; an artifact of its own pipeline is called by its stage, whichever run that is."""
    settings = read_settings(run.config_file)
    whole = run.folder.resolve().parent
    if not (whole / "pipeline.json").is_file():
        return settings
    texts = {key: value for key, value in settings.items() if isinstance(value, str)}
    places = {key: Path(text) for key, text in texts.items() if text.endswith("/artifact")}
    own = {key: place.parent.name for key, place in places.items() if place.resolve().parent.parent == whole}
    return settings | own


def setting_differences(settings: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Settings in which groups differ, each with its value in every group; within one it may vary too."""
    keys = varying([each for many in settings.values() for each in many])

    def value(many: Sequence[dict[str, Any]], key: str) -> Any:
        texts = list(dict.fromkeys(str(setting(each, key)) for each in many))
        return setting(many[0], key) if len(texts) == 1 else f"{', '.join(texts[:5])} (varies)"

    return {key: {name: value(many, key) for name, many in settings.items()} for key in keys}


def _cautions(groups: Mapping[str, Sequence[Run]], tasks: Mapping[str, list[str]]) -> list[str]:
    cautions = []
    if len({frozenset(each) for each in tasks.values()}) > 1:
        cautions.append("the groups are of different tasks: their scores cannot be held against each other")
    if any(is_few(len(runs)) for runs in groups.values()):
        cautions.append(
            "below five runs no interval is given but their scores; a single run says nothing about other seeds"
        )
    return cautions
