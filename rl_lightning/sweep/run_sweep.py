"""A sweep at work: its folder, the configs of its trials, workers here or on a cluster, and what it leaves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import write_text
from rl_lightning.redaction import redact, without_secrets
from rl_lightning.runs.config.compose import find
from rl_lightning.runs.store.run_folder import logs_root
from rl_lightning.sweep.definition import SweepDefinition
from rl_lightning.sweep.jobs import PlannedRun
from rl_lightning.sweep.outcome import summary, write_best, write_table
from rl_lightning.sweep.study import SweepTrial, TrialLedger
from rl_lightning.sweep.sweep_config import SweepOptions, config_of, first_config, text_of
from rl_lightning.sweep.work import SweepWorker

FILE = "sweep.yaml"


def run_sweep(definition: SweepDefinition, options: SweepOptions, say: Callable[[str], None]) -> int:
    """Works on a sweep in this process until no trial waits; an exit code.

    Args:
        definition: The sweep, from `read_sweep`.
        options: What is asked of it.
        say: Is told of every trial that begins or ends.
    """
    folder = open_folder(definition, text_of(options))
    ledger = TrialLedger(definition, folder)
    worker = SweepWorker(
        definition, ledger, lambda trial: plan_trial(definition, folder, trial), folder, say,
        options.import_words, None if options.hours is None else 3600 * options.hours,
    )  # fmt: skip
    say(opening(definition, folder))
    try:
        code = worker.run()
    finally:
        say(close(definition, ledger, folder, options))
    if code:
        again = f"{folder / FILE} --name {definition.name}" if options.typed else options.config
        say(f"stopped; continue with the same command, or with: rl sweep --config {again}")
        return code
    rows = ledger.rows()
    return 1 if rows and all(row.state == "fail" for row in rows) else 0


def open_folder(definition: SweepDefinition, text: str) -> Path:
    """The sweep's folder below the runs; one that is there already is gone on with."""
    folder = logs_root() / definition.name
    if folder.exists() and not (folder / FILE).is_file():
        raise ConfigError(
            f"'{definition.name}' is the name of a run ({folder}); give the sweep another --name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        write_text(folder / FILE, without_secrets(text))
    return folder


def plan_trial(definition: SweepDefinition, folder: Path, trial: SweepTrial) -> list[PlannedRun]:
    """Writes a trial's configs; what is to be trained."""
    place = folder / "trials"
    place.mkdir(exist_ok=True)
    runs = []
    for seed in definition.seeds:
        config = config_of(definition, trial.params, seed)
        path = write_text(
            place / f"{trial.slot:03d}-s{seed}.yaml", yaml.safe_dump(redact(config), sort_keys=False)
        )
        stages = config.get("stages")
        stage = definition.stage or (stages[-1]["name"] if stages else None)
        name = f"{definition.name}-{trial.slot:03d}-s{seed}"
        runs.append(PlannedRun(seed, name, path.resolve(), bool(stages), stage))
    return runs


def opening(definition: SweepDefinition, folder: Path) -> str:
    sampler, pruner = definition.sampler["name"], definition.pruner["name"]
    kind = "grid" if definition.points is not None else f"Optuna ({sampler}, pruning {pruner})"
    seeds = f" x {len(definition.seeds)} seeds" if len(definition.seeds) > 1 else ""
    count = f"{definition.trials} trials{seeds}, {definition.jobs} at a time"
    return f"sweep {definition.name} · {kind} · {count} · {folder}"


def close(definition: SweepDefinition, ledger: TrialLedger, folder: Path, options: SweepOptions) -> str:
    """Table, best configs and pictures; each worker writes them, and the last one has all trials."""
    rows = ledger.rows()
    write_table(folder, rows, list(definition.space))
    write_best(
        folder,
        rows,
        definition,
        lambda params, seed: redact(config_of(definition, params, seed)),
        options.export_best,
    )
    if options.plots:
        from rl_lightning.sweep.plots import draw_all

        draw_all(ledger, rows, folder / "plots")
    return summary(rows, definition, folder)


def describe(definition: SweepDefinition) -> str:
    """--dry_run: what would be trained, and the first config."""
    lines = [opening(definition, logs_root() / definition.name)]
    for key, parameter in definition.space.items():
        values = list(parameter.choices) if parameter.choices else f"{parameter.low:g} to {parameter.high:g}"
        lines.append(f"  {key}: {parameter.kind} {values}")
    first = yaml.safe_dump(redact(first_config(definition)), sort_keys=False).rstrip()
    return "\n".join([*lines, first, "nothing was trained"])


def launch_sweep(definition: SweepDefinition, options: SweepOptions) -> str:
    """Sends workers to a cluster, one training each at a time; what was sent, as text."""
    from rl_lightning.sweep.launcher import submit

    folder = open_folder(definition, text_of(options))
    source = folder / FILE if options.typed else find(options.config)
    TrialLedger(definition, folder)  # the study is there before the workers are
    command = [sys.executable, "-m", "rl_lightning.cli", "sweep", "--config", str(source), "--jobs", "1"]
    command += ["--name", definition.name]
    if options.storage or definition.storage == "journal":  # else the worker reads it: it may hold a password
        command += ["--storage", definition.storage]
    command += ["--trials", str(definition.trials)] if definition.points is None else []
    command += options.import_words
    command += [] if options.plots else ["--no_plots"]
    launcher_options = {**definition.launcher, **options.launcher_options}
    ids = submit(command, definition.name, folder, definition.jobs, launcher_options)
    return (
        f"{len(ids)} workers submitted: {', '.join(ids)}\noutput: {folder / 'submitit'}\n"
        f"look with: rl watch {definition.name}"
    )
