"""What a policy recommends against what was done, as a picture and in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_lightning.errors import ConfigError, DataError
from rl_lightning.io.text import number
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.runs.agents.prediction import Confidence, dataset_rows, predict_actions

MOST_ACTIONS, SHOWN_ROWS, BINS = 6, 150, 40
RECORDED, RECOMMENDED, UNLIKELY = "#000000", "#0072B2", "#D55E00"
Columns = Mapping[str, NDArray[Any]]


def recommended_rows(agent: LoadedAgent, source: str | None, asked: Confidence) -> Columns:
    """The policy's actions for rows of a data set, and what was done there.

    Args:
        agent: The policy.
        source: The data set; null: the one that it learned from.
        asked: What is written beside the actions.
    """
    data = agent.cli.datamodule
    if agent.cli.model.evaluated_on == "rows":
        raise ConfigError(f"{type(agent.cli.model).__name__} does not act; --actions is for policies")
    name = source or agent.cli.data_arguments().get("dataset")
    if not isinstance(name, str):
        raise ConfigError("which rows? Name a data set: --data NAME or FILE")
    arrays = dict(predict_actions(agent, name, None, 0, asked))
    if "recorded_action" not in arrays:
        kind = data.spec.action_kind.replace("_", "-")
        raise DataError(f"{name}: no recorded actions to compare with ({kind} actions of this run)")
    is_first = dataset_rows(data, name).get("is_first", np.zeros(len(arrays["action"]), bool))
    return {**arrays, "is_first": is_first}


def comparison_text(columns: Columns) -> str:
    """A line for each action: how far apart the two lie on average, and whether they rise and fall together."""
    policy, done = _wide(columns["action"]), _wide(columns["recorded_action"])
    lines = []
    for i in range(policy.shape[1]):
        apart = float(np.abs(policy[:, i] - done[:, i]).mean())
        together = _correlation(policy[:, i], done[:, i])
        lines.append(
            f"action {i}: recorded {number(float(done[:, i].mean()))}, recommended "
            f"{number(float(policy[:, i].mean()))} on average; {number(apart)} apart, correlation {together}"
        )
    for name, who in (("below_threshold", "recommended"), ("recorded_below_threshold", "recorded")):
        if name in columns:
            lines.append(f"{columns[name].mean():.1%} of {who} actions below the density's threshold")
    return "\n".join(lines)


def draw_actions(columns: Columns, path: Path) -> Path:
    """For each action how often which was recommended where which was recorded, and both along the first rows."""
    from matplotlib.figure import Figure

    policy, done = _wide(columns["action"]), _wide(columns["recorded_action"])
    count = min(policy.shape[1], MOST_ACTIONS)
    figure = Figure(figsize=(10.0, 3.6 * count), dpi=140, layout="tight")
    panels = figure.subplots(count, 2, squeeze=False, width_ratios=(1, 2))
    for i in range(count):
        _against(panels[i, 0], done[:, i], policy[:, i], i)
        width = _wide(columns["action_std"])[:, i] if "action_std" in columns else None
        _along(panels[i, 1], done[:, i], policy[:, i], width, columns, i)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def _against(axes: Any, done: NDArray[Any], policy: NDArray[Any], action: int) -> None:
    low, high = float(min(done.min(), policy.min())), float(max(done.max(), policy.max()))
    high = high if high > low else low + 1.0
    span = [[low, high], [low, high]]
    axes.hist2d(
        done, policy, bins=BINS, range=span, cmap="Blues", cmin=1, norm="log"
    )  # corners hold most rows
    axes.plot([low, high], [low, high], color=RECORDED, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xlabel(f"recorded action {action}")
    axes.set_ylabel(f"recommended action {action}")


def _along(
    axes: Any,
    done: NDArray[Any],
    policy: NDArray[Any],
    width: NDArray[Any] | None,
    columns: Columns,
    action: int,
) -> None:
    rows = slice(0, min(len(done), SHOWN_ROWS))
    place = np.arange(rows.stop)
    axes.plot(place, done[rows], color=RECORDED, linewidth=1.0, label="recorded")
    axes.plot(place, policy[rows], color=RECOMMENDED, linewidth=1.4, label="recommended")
    if width is not None:
        edges = policy[rows] - width[rows], policy[rows] + width[rows]
        axes.fill_between(place, *edges, color=RECOMMENDED, alpha=0.18, linewidth=0, label="± its own spread")
    if "below_threshold" in columns:
        unlikely = np.flatnonzero(columns["below_threshold"][rows])
        axes.plot(unlikely, policy[unlikely], "x", color=UNLIKELY, markersize=5, label="unlikely in the data")
    for first in np.flatnonzero(columns["is_first"][rows])[1:]:
        axes.axvline(first - 0.5, color="#BBBBBB", linewidth=0.8)
    axes.set_xlabel("row; lines part episodes")
    axes.set_ylabel(f"action {action}")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    return values.reshape(len(values), -1).astype(float)


def _correlation(one: NDArray[Any], other: NDArray[Any]) -> str:
    if one.std() == 0.0 or other.std() == 0.0:
        return "none (one of them never changes)"
    return f"{float(np.corrcoef(one, other)[0, 1]):.2f}"
