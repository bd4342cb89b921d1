"""Four pictures of a sweep, by Optuna: history, importances, parallel coordinates, slices."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rl_lightning.sweep.study import TrialLedger, TrialRow


def draw_all(ledger: TrialLedger, rows: Sequence[TrialRow], folder: Path) -> list[Path]:
    """All pictures that the trials so far allow."""
    import matplotlib

    matplotlib.use("Agg")
    from optuna.visualization import matplotlib as draw

    scores = [row.score for row in rows if row.state == "complete" and row.score is not None]
    if not scores:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    plots: dict[str, Any] = {
        "history": draw.plot_optimization_history,
        "parallel": draw.plot_parallel_coordinate,
        "slices": draw.plot_slice,
    }
    if len(scores) >= 4 and len(set(scores)) > 1:
        plots["importances"] = draw.plot_param_importances
    paths = [_picture(plot, ledger, folder / f"{name}.png") for name, plot in plots.items()]
    return [path for path in paths if path is not None]


def _picture(plot: Callable[..., Any], ledger: TrialLedger, path: Path) -> Path | None:
    from matplotlib import pyplot

    metric = ledger.definition.metric.replace("$", r"\$")  # no mathematics
    try:
        with warnings.catch_warnings(category=ledger.optuna.exceptions.ExperimentalWarning, action="ignore"):
            plot(ledger.study, target_name=metric)
        pyplot.savefig(path, dpi=140, bbox_inches="tight")
    except (ValueError, RuntimeError, ZeroDivisionError):  # the trials do not tell how much a key matters
        return None
    finally:
        pyplot.close("all")
    return path
