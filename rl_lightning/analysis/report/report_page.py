"""The report's page: one HTML text with everything in it. Whatever comes from a run is escaped, and no script runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rl_lightning.analysis.stats_table import Table, shown
from rl_lightning.io.text import printable

_PATH = re.compile(r"(?<![\w.:/-])/(?:[\w.+@-]+/)+[\w.+@-]+")


class ScorePart(NamedTuple):
    """What the page says of one metric."""

    metric: str
    picture: str  # its curves, as a data: URI
    tables: Sequence[Table]


class RunPart(NamedTuple):
    """What the page says of one run."""

    name: str
    facts: list[tuple[str, Any]]
    config: str
    videos: list[tuple[str, str]]  # what it is, and a data: URI; without one, it was too large to carry


def without_places(text: str) -> str:
    """Paths as a reader elsewhere can use them: from the folder of the runs, else by their last name."""
    here = str(Path.cwd())
    return text if text.startswith("data:") else _PATH.sub(lambda match: _relative(match.group(), here), text)


def _relative(path: str, here: str) -> str:
    return path[len(here) + 1 :] if path.startswith(f"{here}/") else f".../{path.rpartition('/')[2]}"


def _text(value: Any) -> Any:
    """The only way a value gets into the page, before it is escaped."""
    if isinstance(value, Markup):  # a part of the template itself
        return value
    return printable(without_places(value)) if isinstance(value, str) else shown(value)


def page(
    title: str,
    made_by: str,
    scores: Sequence[ScorePart],
    settings: Table,
    runs: Sequence[RunPart],
    notes: Sequence[str] = (),
    stages: Sequence[Table] = (),
    training: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole page.

    Args:
        title: Of the report.
        made_by: When, and by which version.
        scores: Every metric.
        settings: What was set differently.
        runs: Every run.
        notes: What a reader must know.
        stages: Of every pipeline, what its stages have come to.
        training: Metrics of the training, each with its picture.
    """
    environment = Environment(
        loader=PackageLoader("rl_lightning.analysis.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_text,
        keep_trailing_newline=True,
    )
    parts = {"scores": scores, "settings": settings, "runs": runs, "stages": stages, "training": training}
    return environment.get_template("page.html").render(title=title, made=made_by, notes=notes, **parts)
