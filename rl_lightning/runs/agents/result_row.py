"""The row of results.csv that an evaluation of a policy learned from data leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from rl_lightning.redaction import redact
from rl_lightning.runs.agents.results_csv import append_result
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.pipeline.relocate_inputs import relocate_inputs
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.config_differences import differences
from rl_lightning.runs.store.run_folder import Run, logs_root
from rl_lightning.runs.store.run_record import config_hash


class EvaluatedSettings(NamedTuple):
    """What was evaluated: a run's settings, and what flags made of them.

    Args:
        changed: Settings that differ from those of training.
        config_hash: Of the settings in use; the run's own where they are the same.
    """

    changed: list[str]
    config_hash: str


def evaluated(run: Run, cli: Any, request: Request) -> EvaluatedSettings:
    """Budgets and cadences are no part of it: an evaluation has none, and its episodes are counted."""
    own = str(run.read().get("config_hash", ""))
    if not request.overrides and not request.overlays:
        return EvaluatedSettings([], own)
    # Resolved anew: an older run's file lacks options that were added since, and those are no changes.
    base = relocate_inputs(compose([str(run.config_file)]), run.folder)
    trained = redact(parse_config(base, replace(request, overrides=[])).plain())
    used = {**redact(cli.plain()), "run": trained["run"]}
    same = config_hash(used) == config_hash(trained)
    return EvaluatedSettings(differences(trained, used), own if same else config_hash(used))


def note_result(
    run: Run,
    cli: Any,
    settings: EvaluatedSettings,
    checkpoint: str,
    numbers: dict[str, Any],
) -> None:
    """Appends to lightning_logs/results.csv; what the data do not have stays empty."""
    data, record = cli.datamodule, run.read()
    rows, mean = getattr(data, "dataset", None), numbers["mean"]
    penalty = getattr(data, "penalty", None)
    model = getattr(penalty, "model", None)
    stage = run.folder.parent.resolve() != logs_root().resolve()
    git = record.get("git") or {}
    score = data.scores({"eval/return": mean}).get("eval/normalized_score")
    append_result(
        logs_root() / "results.csv",
        {
            "task": data.spec.env_id if rows is None else data.source,
            "algorithm": run.name if stage else type(cli.model).__name__,
            "density": "" if model is None else type(model.net).__name__.removesuffix("Net"),
            "percentile": getattr(penalty, "percentile", ""),
            "penalty": "" if penalty is None else type(penalty).__name__,
            "coefficient": getattr(data, "penalty_coef", ""),
            "seed": cli.config.seed_everything,
            "return": mean,
            "std": numbers["std"],
            "normalized_score": score,
            "normalization": rows.reference.kind if rows is not None and rows.reference is not None else "",
            "length": numbers["length"],
            "episodes": numbers["episodes"],
            "config_hash": settings.config_hash,
            "git": git.get("commit", "") if isinstance(git, dict) else git,
            "data_hash": "" if rows is None else rows.sha256,
            "checkpoint": checkpoint,
            "changed": "; ".join(settings.changed),
            "run": f"{run.folder.parent.name}/{run.name}" if stage else run.name,
        },
    )
