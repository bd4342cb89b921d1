"""`rl sweep`: many trainings of one config, each with other settings, that can always go on."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path
from typing import Any

import yaml

from rl_lightning.cli.flags import Parsed, parse
from rl_lightning.cli.sweep_config import check_config, config_of, first_point
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.names import check_run_name, slug
from rl_lightning.experiments.runs import logs_root
from rl_lightning.experiments.sweep.definition import SweepDefinition, read_definition
from rl_lightning.experiments.sweep.jobs import PlannedRun
from rl_lightning.experiments.sweep.outcome import replace_text, summary, write_best, write_table
from rl_lightning.experiments.sweep.study import SweepTrial, TrialLedger
from rl_lightning.redaction import redact, redacted_keys, without_secrets
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.config.compose import Config, fill_variables, find

TAKES = (
    "config", "name", "trials", "jobs", "storage", "launcher", "launcher_options", "import", "hours", "export_best",
)  # fmt: skip
SWITCHES = ("list", "no_plots", "dry_run")
FILE = "sweep.yaml"


def sweep(words: list[str]) -> int:
    parsed = parse(words, TAKES, SWITCHES, command="sweep")
    if parsed.has("list"):
        return show_sweeps()
    names = [*parsed.words, *parsed.all("config")]
    if len(names) != 1:
        raise ConfigError("rl sweep takes one config: rl sweep --config sweep/ppo-cartpole")
    source = find(names[0])
    definition = overridden(read_file(source, parsed.get("name")), parsed)
    for key, value in {**definition.fixed, **first_point(definition)}.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"sweep: {key} is {value}")
    first = config_of(definition, first_point(definition), definition.seeds[0])
    refuse_secrets(first)
    check_config(first, parsed)
    if parsed.has("dry_run"):
        return describe(definition)
    folder = open_folder(definition, source)
    launcher = parsed.get("launcher")
    if launcher is not None:
        return launch(definition, folder, parsed, launcher)
    return work(definition, folder, parsed)


def read_file(source: Path, name: str | None) -> SweepDefinition:
    entries = fill_variables(yaml_io.load(source))
    stem = slug(source.stem if source.parent.name != "sweep" else f"sweep-{source.stem}")
    try:
        definition = read_definition(entries, name or stem)
    except ConfigError as error:
        raise ConfigError(f"{source.name}: {error}") from None
    return definition.changed(name=check_run_name(name)) if name else definition


def refuse_secrets(config: Config) -> None:
    """The trials' configs lie in the sweep's folder, and each is trained from there."""
    if found := redacted_keys(redact(config)):
        raise ConfigError(
            f"{found[0]} is secret and a sweep writes its trials' configs: "
            "put it into an environment variable and write ${NAME}"
        )


def overridden(definition: SweepDefinition, parsed: Parsed) -> SweepDefinition:
    if parsed.get("trials") and definition.points is not None:
        raise ConfigError("--trials: a grid tries all of its points")
    trials = parsed.integer("trials", definition.trials)
    jobs = parsed.integer("jobs", definition.jobs)
    default = "journal" if parsed.get("launcher") and definition.storage == "sqlite" else definition.storage
    return definition.changed(trials=trials, jobs=jobs, storage=parsed.get("storage") or default)


def open_folder(definition: SweepDefinition, source: Path) -> Path:
    """The sweep's folder below the runs; one that is there already is gone on with."""
    folder = logs_root() / definition.name
    if folder.exists() and not (folder / FILE).is_file():
        raise ConfigError(
            f"'{definition.name}' is the name of a run ({folder}); give the sweep another --name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        replace_text(folder / FILE, without_secrets(source.read_text(encoding="utf-8")))
    return folder


def plan_of(definition: SweepDefinition, folder: Path, trial: SweepTrial) -> list[PlannedRun]:
    """Writes a trial's configs; what is to be trained."""
    place = folder / "trials"
    place.mkdir(exist_ok=True)
    runs = []
    for seed in definition.seeds:
        config = config_of(definition, trial.params, seed)
        path = replace_text(
            place / f"{trial.slot:03d}-s{seed}.yaml", yaml.safe_dump(redact(config), sort_keys=False)
        )
        stages = config.get("stages")
        stage = definition.stage or (stages[-1]["name"] if stages else None)
        name = f"{definition.name}-{trial.slot:03d}-s{seed}"
        runs.append(PlannedRun(seed, name, path.resolve(), bool(stages), stage))
    return runs


def work(definition: SweepDefinition, folder: Path, parsed: Parsed) -> int:
    from rl_lightning.experiments.sweep.work import SweepWorker

    ledger = TrialLedger(definition, folder)
    imports = [word for package in parsed.all("import") for word in ("--import", package)]
    hours = parsed.get("hours")
    worker = SweepWorker(
        definition, ledger, lambda trial: plan_of(definition, folder, trial), folder,
        lambda text: print(text, flush=True), imports, None if hours is None else 3600 * positive("hours", hours),
    )  # fmt: skip
    print(opening(definition, folder), flush=True)
    try:
        code = worker.run()
    finally:
        close(definition, ledger, folder, parsed)
    if code:
        given = parsed.words[0] if parsed.words else parsed.get("config")
        print(f"stopped; the same command goes on: rl sweep --config {given}")
        return code
    rows = ledger.rows()
    return 1 if rows and all(row.state == "fail" for row in rows) else 0


def positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < math.inf:
        raise ConfigError(f"--{name} takes a positive number, not '{text}'")
    return value


def opening(definition: SweepDefinition, folder: Path) -> str:
    sampler, pruner = definition.sampler["name"], definition.pruner["name"]
    kind = "grid" if definition.points is not None else f"Optuna ({sampler}, pruning {pruner})"
    seeds = f" x {len(definition.seeds)} seeds" if len(definition.seeds) > 1 else ""
    count = f"{definition.trials} trials{seeds}, {definition.jobs} at a time"
    return f"sweep {definition.name} · {kind} · {count} · {folder}"


def close(definition: SweepDefinition, ledger: TrialLedger, folder: Path, parsed: Parsed) -> None:
    """Table, best configs and pictures; each worker writes them, and the last one has all trials."""
    rows = ledger.rows()
    write_table(folder, rows, list(definition.space))
    count = parsed.integer("export_best", 1)
    write_best(
        folder, rows, definition, lambda params, seed: redact(config_of(definition, params, seed)), count
    )
    if not parsed.has("no_plots"):
        from rl_lightning.experiments.sweep.plots import draw_all

        draw_all(ledger, rows, folder / "plots")
    print(summary(rows, definition, folder))


def describe(definition: SweepDefinition) -> int:
    """--dry_run: what would be trained, and the first config."""
    print(opening(definition, logs_root() / definition.name))
    for key, parameter in definition.space.items():
        values = list(parameter.choices) if parameter.choices else f"{parameter.low:g} to {parameter.high:g}"
        print(f"  {key}: {parameter.kind} {values}")
    print(
        yaml.safe_dump(
            redact(config_of(definition, first_point(definition), definition.seeds[0])), sort_keys=False
        ).rstrip()
    )
    print("nothing was trained")
    return 0


def launch(definition: SweepDefinition, folder: Path, parsed: Parsed, launcher: str) -> int:
    """Workers as cluster jobs, one training each at a time."""
    if launcher != "submitit":
        raise ConfigError(f"--launcher takes submitit, not '{launcher}'")
    from rl_lightning.experiments.sweep.launcher import submit

    TrialLedger(definition, folder)  # the study is there before the workers are
    source = find([*parsed.words, *parsed.all("config")][0])
    command = [sys.executable, "-m", "rl_lightning.cli", "sweep", "--config", str(source), "--jobs", "1"]
    command += ["--name", definition.name]
    if (
        parsed.get("storage") or definition.storage == "journal"
    ):  # else the worker reads it: it may hold a password
        command += ["--storage", definition.storage]
    command += ["--trials", str(definition.trials)] if definition.points is None else []
    command += [word for package in parsed.all("import") for word in ("--import", package)]
    command += ["--no_plots"] if parsed.has("no_plots") else []
    options = {**definition.launcher, **own_options(parsed)}
    ids = submit(command, definition.name, folder, definition.jobs, options)
    print(f"{len(ids)} workers submitted: {', '.join(ids)}\noutput: {folder / 'submitit'}")
    print(f"look with: rl watch {definition.name}")
    return 0


def own_options(parsed: Parsed) -> dict[str, Any]:
    """Options of submitit that the user gave: by the environment, and over them by the command line."""
    from rl_lightning.experiments.sweep.launcher import OPTIONS

    found: dict[str, Any] = {}
    given = [(OPTIONS, os.environ.get(OPTIONS)), ("--launcher_options", parsed.get("launcher_options"))]
    for where, text in given:
        options = yaml_io.loads(text or "{}", where)
        if not isinstance(options, dict):
            raise ConfigError(
                f"{where} takes a mapping like '{{slurm_setup: [module load cuda]}}', not {text!r:.60}"
            )
        found |= options
    return found


def show_sweeps() -> int:
    """--list: the sweeps here, and how far each is."""
    from rl_lightning.cli.tools import table

    rows = []
    root = logs_root()
    for path in sorted(root.glob(f"*/{FILE}")) if root.is_dir() else []:
        rows.append({"sweep": path.parent.name, **standing(path.parent)})
    print(table(rows) if rows else "no sweeps here yet; start one with: rl sweep --config sweep/ppo-cartpole")
    return 0


def standing(folder: Path) -> dict[str, Any]:
    """What trials.csv and the runs' records say, without opening the study."""
    import csv

    found: dict[str, Any] = {"complete": 0, "pruned": 0, "fail": 0, "waiting": 0, "best": None}
    try:
        with open(folder / "trials.csv", newline="", encoding="utf-8") as file:
            entries = list(csv.DictReader(file))
    except OSError:
        return found
    for entry in entries:
        state = entry.get("state") if entry.get("state") in found else "waiting"
        found[str(state)] += 1
    header = folder / "best.yaml"
    if header.is_file():
        first = header.read_text(encoding="utf-8").splitlines()[0]
        found["best"] = float(first.rpartition(" ")[2])
    return found
