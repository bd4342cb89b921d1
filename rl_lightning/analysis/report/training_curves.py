"""Losses, Q values and model errors of all runs that a report is about, and of every stage of a pipeline, together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rl_lightning.analysis.plot import Curve, read_curve, svg_uri
from rl_lightning.errors import RLError
from rl_lightning.runs.store.metrics_file import header
from rl_lightning.runs.store.run_folder import Run
from rl_lightning.runs.store.select_runs import stage_runs

SHOWN = re.compile(r"train/\w*(loss|q_values?|nll|error)$|eval/(score|\w*(error|mse|nll|loss))$")
MOST = 12  # pictures of a page
MOST_CURVES = 12  # of a picture


def training_curves(groups: Mapping[str, Sequence[Run]], shown: Sequence[str]) -> list[tuple[str, str]]:
    """Each metric with the picture of all that have it, but those that are shown anyway."""
    curves: dict[tuple[str, str], list[Curve]] = {}
    for label, run in labelled(groups).items():
        for metric in (name for name in _metrics(run) if name not in shown):
            try:
                curve = read_curve(run, metric)._replace(label=label)
            except RLError:
                continue
            if len(curve.x) > 1:
                curves.setdefault((metric, curve.clock), []).append(curve)
    several = {metric for metric, _ in curves if sum(name == metric for name, _ in curves) > 1}
    return [
        (f"{metric} by {clock}" if metric in several else metric, svg_uri(members[:MOST_CURVES], metric))
        for (metric, clock), members in sorted(curves.items())[:MOST]
    ]


def labelled(groups: Mapping[str, Sequence[Run]]) -> dict[str, Run]:
    """Every run by its name; where stages of a pipeline are among them, all of its stages."""
    runs: dict[str, Run] = {}
    for members in groups.values():
        for run in members:
            whole = Run(run.folder.parent)
            stages = stage_runs(whole) if (whole.folder / "pipeline.json").is_file() else []
            runs |= {f"{whole.name}/{stage.name}": stage for stage in stages} or {run.name: run}
    return runs


def _metrics(run: Run) -> list[str]:
    try:
        return [name for name in header(run.folder / "metrics.csv") if SHOWN.match(name)]
    except OSError:
        return []
