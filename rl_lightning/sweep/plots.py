"""Four pictures of a sweep: history, importances, parallel coordinates, slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.space import Parameter
from rl_lightning.sweep.study import TrialLedger, TrialRow

DOT, LINE = "#0072B2", "#D55E00"  # told apart by the colour-blind, and in grey


def draw_all(ledger: TrialLedger, rows: Sequence[TrialRow], folder: Path) -> list[Path]:
    """All pictures that the trials so far allow."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    definition = ledger.definition
    complete = [row for row in rows if row.state == "complete" and row.score is not None]
    if not complete:
        return []
    paths = [history(complete, definition, folder / "history.png")]
    paths.append(parallel(complete, definition, folder / "parallel.png"))
    paths.append(slices(complete, definition, folder / "slices.png"))
    found = importances(ledger, complete)
    if found:
        paths.append(bars(found, definition, folder / "importances.png"))
    return paths


def _figure(
    columns: int = 1, width: float = 7.2, height: float = 4.2, rows: int = 1
) -> tuple[Any, list[Any]]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=(width, height), dpi=140, squeeze=False)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def _save(figure: Any, path: Path) -> Path:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path


def plain(text: object) -> str:
    """Text that matplotlib does not take for mathematics."""
    return str(text).replace("$", r"\$")


def history(rows: Sequence[TrialRow], definition: SweepDefinition, path: Path) -> Path:
    """Every score, and the best so far."""
    figure, (axis,) = _figure()
    scores = [row.score or 0.0 for row in rows]
    best = [definition.best_of(scores[: i + 1]) for i in range(len(scores))]
    axis.scatter([row.slot for row in rows], scores, s=18, color=DOT, label="trial")
    axis.step([row.slot for row in rows], best, where="post", color=LINE, label="best so far")
    axis.set_xlabel("trial")
    axis.set_ylabel(plain(definition.metric))
    axis.legend(frameon=False, fontsize=8)
    return _save(figure, path)


def importances(ledger: TrialLedger, rows: Sequence[TrialRow]) -> dict[str, float]:
    """How much each key decides the score (PED-ANOVA); empty where the trials do not tell."""
    if len(rows) < 4 or len({row.score for row in rows}) < 2:
        return {}
    try:
        found = ledger.optuna.importance.get_param_importances(ledger.study)
    except (ValueError, RuntimeError, ZeroDivisionError):
        return {}
    return {key: float(value) for key, value in found.items() if math.isfinite(value)}


def bars(found: dict[str, float], definition: SweepDefinition, path: Path) -> Path:
    figure, (axis,) = _figure(height=1.2 + 0.4 * len(found))
    keys = list(reversed(found))
    axis.barh([plain(key) for key in keys], [found[key] for key in keys], color=DOT)
    axis.set_xlabel(plain(f"share of {definition.metric} that the key decides"))
    return _save(figure, path)


def places(parameter: Parameter, rows: Sequence[TrialRow]) -> tuple[list[float], list[str] | None, bool]:
    """Where each trial lies on a key's axis, the names of its ticks, and whether it is logarithmic."""
    values = [row.params.get(parameter.key) for row in rows]
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    if numbers and (parameter.kind != "categorical" or len(parameter.choices) > 8):
        return (
            [float(v) for v in values if v is not None],
            None,
            parameter.kind == "log_uniform" or parameter.log,
        )
    names = list(dict.fromkeys(str(v) for v in (*parameter.choices, *values) if v is not None))
    return [float(names.index(str(v))) if v is not None else math.nan for v in values], names, False


def parallel(rows: Sequence[TrialRow], definition: SweepDefinition, path: Path) -> Path:
    """One line per trial across all keys, the better the darker."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    parameters = list(definition.space.values())
    figure, (axis,) = _figure(width=max(7.2, 1.6 * len(parameters) + 2))
    scores = [row.score or 0.0 for row in rows]
    scale = Normalize(min(scores), max(scores) if max(scores) > min(scores) else min(scores) + 1)
    colours = colormaps["viridis_r" if definition.direction == "maximize" else "viridis"]
    heights = [_heights(parameter, rows, axis, x) for x, parameter in enumerate(parameters)]
    for i, score in sorted(enumerate(scores), key=lambda pair: scale(pair[1])):
        axis.plot(
            range(len(parameters)), [column[i] for column in heights], color=colours(scale(score)), alpha=0.8
        )
    axis.set_xticks(range(len(parameters)), [plain(p.key) for p in parameters], rotation=12, fontsize=8)
    axis.set_yticks([])
    axis.set_xlim(-0.3, len(parameters) - 0.5)
    figure.colorbar(ScalarMappable(scale, colours), ax=axis, label=plain(definition.metric))
    return _save(figure, path)


def _heights(parameter: Parameter, rows: Sequence[TrialRow], axis: Any, x: int) -> list[float]:
    """Places of one key between 0 and 1, with its own labels beside its line."""
    found, names, log = places(parameter, rows)
    at = [math.log(v) for v in found] if log else found
    low, high = (0.0, len(names) - 1.0) if names else (min(at), max(at))
    span = (high - low) or 1.0
    axis.axvline(x, color="0.6", linewidth=0.8)
    ticks = {(i - low) / span: name for i, name in enumerate(names)} if names else {
        0.0: f"{min(found):.3g}", 1.0: f"{max(found):.3g}"
    }  # fmt: skip
    for height, text in ticks.items():
        axis.annotate(plain(text)[:24], (x, height), fontsize=6, xytext=(3, 2), textcoords="offset points")
    return [(v - low) / span for v in at]


def slices(rows: Sequence[TrialRow], definition: SweepDefinition, path: Path) -> Path:
    """The score against each key."""
    parameters = list(definition.space.values())
    columns = min(3, len(parameters))
    lines = -(-len(parameters) // columns)
    figure, axes = _figure(columns, max(4.0, 3.2 * columns), 3.0 * lines, lines)
    for axis, parameter in zip(axes, parameters, strict=False):
        found, names, log = places(parameter, rows)
        axis.scatter(found, [row.score for row in rows], s=18, color=DOT, alpha=0.8)
        axis.set_xlabel(plain(parameter.key), fontsize=8)
        if log:
            axis.set_xscale("log")
        if names:
            axis.set_xticks(range(len(names)), [plain(name)[:16] for name in names], rotation=20, fontsize=7)
    for axis in axes[len(parameters) :]:
        axis.set_visible(False)
    axes[0].set_ylabel(plain(definition.metric), fontsize=8)
    return _save(figure, path)
