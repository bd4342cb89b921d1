"""Resumes a run exactly where it was stopped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rl_lightning.errors import ConfigError
from rl_lightning.redaction import redact
from rl_lightning.runs.config.compose import Config, compose
from rl_lightning.runs.config.parsing import check_imports, parse_config
from rl_lightning.runs.engine.fit import train
from rl_lightning.runs.engine.folder import check_not_running, is_first, write_config
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.artifact_hashes import check_artifacts
from rl_lightning.runs.store.config_differences import differences
from rl_lightning.runs.store.run_folder import Run, resolve
from rl_lightning.runs.store.run_record import note_resume

BUDGETS = ("run.env_steps:", "run.updates:")  # how lines of what differs begin


def check_resume_mode(name: str, request: Request) -> None:
    """`rl resume` continues exactly; what else a checkpoint is good for is a new run."""
    asked = [flag for flag in request.overrides if flag.startswith(("--resume_mode=", "--ckpt_path="))]
    if asked and asked != ["--resume_mode=exact"]:
        raise ConfigError(
            f"rl resume continues exactly, without {asked[0].partition('=')[0]}; a new run from its weights:\n"
            f"{warm_start(resolve(name))}"
        )


def warm_start(run: Run, checkpoint: str | None = None) -> str:
    """The command that begins a new run with the weights of another."""
    source = run.folder if checkpoint is None else checkpoint
    return f"rl fit --config {run.config_file} --ckpt_path {source} --resume_mode warm_start"


def budget_spent(run: Run, request: Request) -> str | None:
    """What to say of a run that reached its budget and is given no other: nothing is left to do."""
    record = run.read()
    asked = request.overrides or request.overlays or request.checkpoint or request.reset_lr
    budget = {"env_steps": "env_step", "updates": "update"}.get(str(record.get("ended_by")))
    if budget is None or asked or record.get("status") != "finished":
        return None
    reached, flag = int(record.get(budget) or 0), str(record["ended_by"])
    return (
        f"{run.command_name} is finished: {reached:,} {budget}s, its whole budget. To continue, give it more: "
        f"rl resume {run.command_name} --{flag} {2 * reached}"
    )


def resume_run(run: Run, request: Request) -> int:
    record = run.read()
    check_not_running(run, record)
    check_imports(record, request)
    config = compose([str(run.config_file), *request.overlays])
    if "stages" in config:
        from rl_lightning.runs.pipeline.fit_pipeline import resume_pipeline

        return resume_pipeline(run, config, request)
    if record.get("imported") and not list(run.folder.glob("checkpoints/last-*")):
        raise ConfigError(
            f"'{run.name}' holds imported weights, not a state to resume exactly from; a new run from them:\n"
            f"{warm_start(run)}"
        )
    run.checkpoint(request.checkpoint or "last")
    from rl_lightning.runs.pipeline.relocate_inputs import relocate_inputs

    cli = parse_config(relocate_inputs(config, run.folder), request)
    check_artifacts(record.get("artifacts"), cli.plain(), run.name)
    keep_config = print_changed_settings(run, cli.plain(), request.reset_lr)
    from rl_lightning.runs.engine.run_start import newest, start_from

    which = request.checkpoint
    generation = newest(run) if which in (None, "last") else run.checkpoint(which or "").parent
    if not (generation / "meta.json").is_file():  # weights alone
        raise ConfigError(
            f"'{which}' holds weights, not a state to resume exactly from; a new run from them:\n"
            f"{warm_start(run, str(run.checkpoint(which or '')))}"
        )
    start = start_from(str(generation), "exact", request.reset_lr)
    return train(cli, request, run.name, run.name, run, start, keep_config).code


def print_changed_settings(run: Run, config: Config, reset_lr: bool) -> Callable[[], None] | None:
    """Prints every setting that differs from the run's; what is returned keeps the new ones as its config.

    To be called when all is loaded: a change that the checkpoint does not fit must leave the run as it was.
    """
    old = compose([str(run.config_file)])
    changed = differences(redact(old), redact(config))
    if not changed or not is_first():
        return None
    for line in changed:
        print(f"differs from the checkpoint: {line}", file=sys.stderr)
    if schedules := schedules_of(config) if any(line.startswith(BUDGETS) for line in changed) else []:
        print(
            f"note: {' and '.join(schedules)} followed the old budget: a run that had the new one from the start "
            "would differ",
            file=sys.stderr,
        )
    rates = [line for line in changed if is_learning_rate(line.split(":")[0].rpartition(".")[2])]
    if rates and not reset_lr:
        print("note: the checkpoint's learning rate stays; --reset_lr applies the new one", file=sys.stderr)
        config = with_learning_rates_of(old, config)

    def keep() -> None:
        in_use = differences(redact(old), redact(config))
        if in_use:
            note_resume(run, config, in_use)
        write_config(run, config)

    return keep


def schedules_of(config: Config) -> list[str]:
    """Settings of the model that follow the fraction of the budget that is spent."""
    arguments = (config.get("model") or {}).get("init_args") or {}
    return [f"model.{name}" for name, value in arguments.items() if name.endswith("_schedule") and value]


def is_learning_rate(name: str) -> bool:
    return name == "lr" or name.endswith("_lr")


def with_learning_rates_of(old: Any, new: Any) -> Any:
    """The new settings with the old learning rates, which are the ones in use."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {
        key: old[key]
        if is_learning_rate(str(key)) and key in old
        else with_learning_rates_of(old.get(key), value)
        for key, value in new.items()
    }
