"""The row of results.csv that an evaluation of a policy learned from data leaves."""

from __future__ import annotations

from typing import Any

from rl_lightning.experiments.results import append_result
from rl_lightning.experiments.runs import Run, logs_root


def note_result(run: Run, cli: Any, checkpoint: str, mean: float, length: float, episodes: int) -> None:
    """Appends to lightning_logs/results.csv; only data sets have what such a row tells."""
    data, record = cli.datamodule, run.read()
    rows = getattr(data, "dataset", None)
    if rows is None:
        return
    penalty = getattr(data, "penalty", None)
    model = getattr(penalty, "model", None)
    stage = run.folder.parent.resolve() != logs_root().resolve()
    git = record.get("git") or {}
    score = data.scores({"eval/return": mean}).get("eval/normalized")
    append_result(
        logs_root() / "results.csv",
        {
            "task": data.source,
            "algorithm": run.name if stage else type(cli.model).__name__,
            "density": "" if model is None else type(model.net).__name__.removesuffix("Net"),
            "percentile": getattr(penalty, "percentile", ""),
            "seed": cli.config.seed_everything,
            "return": mean,
            "normalized": score,
            "normalization": rows.reference.kind if rows.reference is not None else "",
            "length": length,
            "episodes": episodes,
            "config_hash": record.get("config_hash", ""),
            "git": git.get("commit", "") if isinstance(git, dict) else git,
            "data_hash": rows.sha256,
            "checkpoint": checkpoint,
            "run": f"{run.folder.parent.name}/{run.name}" if stage else run.name,
        },
    )
