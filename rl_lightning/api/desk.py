"""Runs that are there: found and compared. Needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl_lightning.api.spelling import spoken_in_python

if TYPE_CHECKING:
    from rl_lightning.analysis.compare import Comparison
    from rl_lightning.runs.store.index import RunEntry


@spoken_in_python()
def find(
    *conditions: str,
    sort: str | None = None,
    reverse: bool = False,
    limit: int | None = None,
    root: str | Path | None = None,
    **fields: Any,
) -> list[RunEntry]:
    """Runs, like `rl list`: each with name, folder, record, status, config and metrics.

    Args:
        conditions: As for --filter: "model.lr=3e-4", "eval/return>400".
        sort: As for --sort.
        reverse: The other way round.
        limit: At most so many.
        root: Where runs live; null: RL_LOGS or lightning_logs.
        fields: Fields of the record: algorithm="SAC", env="Hopper-v5".
    """
    from rl_lightning.runs.store.index import Index
    from rl_lightning.runs.store.run_filters import Condition, keep, order, parse_condition

    wanted = [parse_condition(text) for text in conditions]
    wanted += [Condition(key, "=", str(value)) for key, value in fields.items()]
    with Index(None if root is None else Path(root)) as index:
        runs = keep([run for run in index.runs() if not run.is_stage], wanted)
        runs = order(runs, sort, reverse) if sort else runs[::-1] if reverse else runs
    return runs[:limit]


@spoken_in_python()
def compare(
    *names: Any,
    metrics: str | Sequence[str] = "reward",
    threshold: float | None = None,
    optimal: float | None = None,
    against: str | None = None,
) -> Comparison:
    """Runs or groups of seeds side by side, like `rl compare`.

    Args:
        names: Runs, groups or folders, by name or as `fit` returned them.
        metrics: One metric or several.
        threshold: Score that counts as reached.
        optimal: Score that the optimality gap is measured from.
        against: env_step, update or time.
    """
    from rl_lightning.analysis.compare import compare_named
    from rl_lightning.runs.store.select_runs import several

    words = [str(getattr(name, "folder", name)) for name in names]
    several(words, "compare")
    chosen = [metrics] if isinstance(metrics, str) else list(metrics)
    return compare_named(words, chosen, threshold, optimal, against)[0]
