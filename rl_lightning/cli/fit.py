"""`rl fit` and `rl resume`: from a command line to a finished run folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rl_lightning.cli.compose import Config, compose
from rl_lightning.cli.flags import Parsed, normalize, parse, seed_list
from rl_lightning.cli.meet import alone, launched, meet
from rl_lightning.cli.options import OWN_SWITCHES, OWN_VALUES
from rl_lightning.cli.provide import provide_data
from rl_lightning.errors import ConfigError
from rl_lightning.experiments.changes import differences
from rl_lightning.experiments.migrate import stamped
from rl_lightning.experiments.names import check_run_name, slug
from rl_lightning.experiments.record import new_record, note_resume
from rl_lightning.experiments.runs import (
    Run,
    alive,
    claim,
    group_of,
    logs_root,
    resolve,
)
from rl_lightning.experiments.taken import check_products
from rl_lightning.redaction import redact, redact_words

GROUP_SEEDS = "RL_GROUP_SEEDS"  # tells a run of a group of all its seeds

if TYPE_CHECKING:
    from rl_lightning.cli.lightning import RLCLI
    from rl_lightning.cli.start import Start


def fit(words: list[str]) -> int:
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="fit")
    names = [*parsed.words, *parsed.all("config")]
    if not names and not any(flag.startswith("--model") for flag in parsed.config_flags):
        raise ConfigError("nothing to train: rl fit --config NAME, e.g. ppo/cartpole; see: rl list configs")
    config = compose(names)
    for_show = parsed.has("dry_run") or parsed.has("print_config")
    if "stages" in config and (for_show or not parsed.get("seeds")):
        from rl_lightning.cli.pipelines import fit_pipeline

        return fit_pipeline(config, parsed, names)
    name = given_name(parsed, config) or (
        str(config["name"]) if "stages" in config and "name" in config else None
    )
    if parsed.get("seeds") and not for_show:
        from rl_lightning.cli.group import run_group

        seeds, jobs = seed_list(parsed.get("seeds") or ""), parsed.integer("jobs", 1)
        return run_group(normalize(words), name, stem_of(names, config), seeds, jobs)
    if name is not None and not for_show and "LOCAL_RANK" not in os.environ and not launched():
        refuse_used(name)
    cli = parse_config(config, parsed, small=parsed.has("debug"))
    if parsed.has("print_config"):
        print(yaml.safe_dump(redact(cli.plain()), sort_keys=False).rstrip())
        return 0
    if parsed.has("dry_run"):
        from rl_lightning.cli.dry_run import describe

        print(describe(cli, names))
        return 0
    return train(cli, parsed, name, stem_of(names, config))


def resume(words: list[str]) -> int:
    parsed = parse(words, OWN_VALUES, OWN_SWITCHES, config=True, command="resume")
    if len(parsed.words) != 1:
        raise ConfigError("rl resume takes one run; see them with: rl list")
    refuse_modes(parsed)
    if (members := group_of(parsed.words[0])) is not None:
        from rl_lightning.cli.group import resume_group

        return resume_group(parsed.words[0], members, words)
    run = resolve(parsed.words[0])
    meet()
    with alone(run):
        return go_on(run, parsed)


def refuse_modes(parsed: Parsed) -> None:
    """`rl resume` goes on exactly; what else a checkpoint is good for is a new run."""
    asked = [flag for flag in parsed.config_flags if flag.startswith(("--resume_mode=", "--ckpt_path="))]
    if asked and asked != ["--resume_mode=exact"]:
        name = parsed.words[0]
        raise ConfigError(
            f"rl resume goes on exactly, without {asked[0].partition('=')[0]}; a new run from its weights:\n"
            f"{warm_start(resolve(name))}"
        )


def warm_start(run: Run, checkpoint: str | None = None) -> str:
    """The command that begins a new run with the weights of another."""
    source = run.folder if checkpoint is None else checkpoint
    return f"rl fit --config {run.config_file} --ckpt_path {source} --resume_mode warm_start"


def go_on(run: Run, parsed: Parsed) -> int:
    record = run.read()
    refuse_running(run, record)
    check_imports(record, parsed)
    config = compose([str(run.config_file), *parsed.all("config")])
    if "stages" in config:
        from rl_lightning.cli.pipelines import resume_pipeline

        return resume_pipeline(run, config, parsed)
    run.checkpoint(parsed.get("checkpoint") or "last")
    from rl_lightning.pipeline.moved import at_home

    cli = parse_config(at_home(config, run.folder), parsed)
    check_products(record.get("products"), cli.plain(), run.name)
    keep_config = tell_changes(run, cli.plain(), parsed.has("reset_lr"))
    from rl_lightning.cli.start import newest, start_from

    which = parsed.get("checkpoint")
    generation = newest(run) if which in (None, "last") else run.checkpoint(which or "").parent
    if not (generation / "meta.json").is_file():  # weights alone
        raise ConfigError(
            f"'{which}' holds weights, not a state to go on from exactly; a new run from them:\n"
            f"{warm_start(run, str(run.checkpoint(which or '')))}"
        )
    start = start_from(str(generation), "exact", parsed.has("reset_lr"))
    return train(cli, parsed, run.name, run.name, run, start, keep_config)


def refuse_running(run: Run, record: dict[str, Any]) -> None:
    """Two processes must not train one run. Those that the first one started are not two."""
    if launched():
        from rl_lightning import ranks

        ranks.decide(lambda: check_running(run, record))
    elif "LOCAL_RANK" not in os.environ:
        check_running(run, record)


def check_running(run: Run, record: dict[str, Any]) -> None:
    """The same, by the one process that decides."""
    if record.get("status") == "running" and record.get("pid") != os.getpid() and alive(record):
        raise ConfigError(f"run '{run.name}' is being trained by process {record['pid']}")


def tell_changes(run: Run, config: Config, reset_lr: bool) -> Callable[[], None] | None:
    """Prints every setting that differs from the run's; what is returned keeps the new ones as its config.

    To be called when all is loaded: a change that the checkpoint does not fit must leave the run as it was.
    """
    old = compose([str(run.config_file)])
    changed = differences(redact(old), redact(config))
    if not changed or not is_first():
        return None
    for line in changed:
        print(f"differs from the checkpoint: {line}", file=sys.stderr)
    rates = [line for line in changed if is_rate(line.split(":")[0].rpartition(".")[2])]
    if rates and not reset_lr:
        print("note: the checkpoint's learning rate stays; --reset_lr applies the new one", file=sys.stderr)
        config = with_rates_of(old, config)

    def keep() -> None:
        in_use = differences(redact(old), redact(config))
        if in_use:
            note_resume(run, config, in_use)
        write_config(run, config)

    return keep


def is_rate(name: str) -> bool:
    return name == "lr" or name.endswith("_lr")


def with_rates_of(old: Any, new: Any) -> Any:
    """The new settings with the old learning rates, which are the ones in use."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {
        key: old[key] if is_rate(str(key)) and key in old else with_rates_of(old.get(key), value)
        for key, value in new.items()
    }


def is_first() -> bool:
    """This process writes the run's files and talks."""
    from rl_lightning import ranks

    return ranks.first()


def parse_config(config: Config, parsed: Parsed, small: bool = False) -> RLCLI:
    """The strict parse; from here on torch is loaded. `small`: a run of seconds, as --debug makes of new ones."""
    from rl_lightning.cli.lightning import RLCLI, allow_imports

    allow_imports(parsed.all("import"))
    cli = RLCLI(config, parsed.config_flags)
    if small:
        from rl_lightning.cli.shrink import shrink

        shrink(cli.config, parsed.config_flags)
    return cli


def train(
    cli: RLCLI,
    parsed: Parsed,
    name: str | None,
    stem: str,
    run: Run | None = None,
    start: Start | None = None,
    started: Callable[[], None] | None = None,
) -> int:
    """Builds, trains and closes the run's record, whatever happens."""
    from rl_lightning.cli.places import check_places
    from rl_lightning.cli.training import Training

    check_places(cli.config.trainer, cli.flags)
    saved = cli.plain()
    if parsed.get("render"):
        watch(cli, parsed.get("render") or "")
    budgets = (cli.config.run.env_steps, cli.config.run.updates, cli.config.run.max_time)
    if all(budget is None for budget in budgets) and not has_phases(cli):
        raise ConfigError("the run has no end: give it --env_steps, --updates or --max_time")
    if start is None:
        from rl_lightning.cli.start import start_from

        start = start_from(cli.config.ckpt_path, cli.config.resume_mode, parsed.has("reset_lr"))
    provide_data(cli.config)
    cli.build()
    meet()
    begun, fresh = run is None, run is None and is_first()
    if run is None:
        run = join() or claim_once(name, stem)
    try:
        if fresh:
            start_record(run, cli, saved, parsed)
        training = Training(cli, run, redact(saved), parsed.has("debug"), start, started=started)
    except BaseException:
        forget(run, fresh)
        raise
    os.environ["RL_RUN_DIR"] = str(run.folder.resolve())  # ranks that Lightning starts join this run
    try:
        with alone(run) if begun else nullcontext():
            return training.fit()
    except BaseException:
        forget(run, fresh)
        raise


def forget(run: Run, fresh: bool) -> None:
    """Takes a new run's folder away where nothing was trained in it: a run saves before its first block."""
    if fresh and not any(run.folder.glob("**/checkpoints/last-*")):
        shutil.rmtree(run.folder, ignore_errors=True)


def has_phases(cli: RLCLI) -> bool:
    """Phases may end a run. They themselves see to it that they do: only with the module are their hooks known."""
    own = cli.config.trainer.callbacks or []
    names = [item.class_path for item in (own if isinstance(own, list) else [own])]
    return any(name.rpartition(".")[2] == "Phases" for name in names)


def start_record(run: Run, cli: RLCLI, saved: Config, parsed: Parsed) -> None:
    """Writes config.yaml and the first run.json."""
    write_config(run, saved)
    start_record_of(run, saved, parsed)


def start_record_of(run: Run, saved: Config, parsed: Parsed, **more: Any) -> None:
    import torch

    command = ["rl", "fit", *redact_words(parsed.raw)]
    record = new_record(saved, parsed.get("group"), command, torch.get_num_threads(), run.folder)
    record["id"] = run.read().get("id") or record["id"]  # a stage that is resumed is the same one
    if seeds := os.environ.get(GROUP_SEEDS):
        more["group_seeds"] = [int(seed) for seed in seeds.split(",")]
    run.update(**record, **more, imports=parsed.all("import"), pid=os.getpid(), host=os.uname().nodename)


def write_config(run: Run, config: Config) -> None:
    text = yaml.safe_dump(stamped(redact(config)), sort_keys=False)
    temporary = run.config_file.with_name(f".config.yaml.tmp-{os.getpid()}")
    temporary.write_text(f"# rl fit --config {run.config_file}\n{text}", encoding="utf-8")
    os.replace(temporary, run.config_file)  # a run must never be left with half a config


def claim_once(name: str | None, stem: str) -> Run:
    """One folder for all processes."""
    from rl_lightning import ranks

    return Run(Path(ranks.decide(lambda: str(claim(name, stem).folder))))


def join() -> Run | None:
    """The run that the first rank made, for the others."""
    folder = os.environ.get("RL_RUN_DIR")
    return Run(Path(folder)) if folder and "LOCAL_RANK" in os.environ else None


def given_name(parsed: Parsed, config: Config) -> str | None:
    """The name that flags or config ask for, checked; None for a fresh one."""
    named = [flag.partition("=")[2] for flag in parsed.config_flags if flag.startswith("--run.name=")]
    name: Any = named[-1] if named else (config.get("run") or {}).get("name")
    return None if name is None or name == "null" else check_run_name(str(name))


def refuse_used(name: str) -> None:
    """Says so before torch is loaded; `claim` decides for good."""
    if (logs_root() / name).exists():
        claim(name, name)


def stem_of(names: list[str], config: Config) -> str:
    """What a fresh name is made of: the first config (a run's own gives the run's stem), or the algorithm."""
    if not names:
        return slug(str((config.get("model") or {}).get("class_path", "run")).rpartition(".")[2].lower())
    path = Path(names[0])
    if path.name in ("config.yaml", "config.yml") and path.parent.name:
        return slug(path.parent.name).rstrip("0123456789").rstrip("-") or "run"
    return slug(path.stem if path.suffix in (".yaml", ".yml") and path.is_file() else names[0])


def check_imports(record: dict[str, Any], parsed: Parsed) -> None:
    """A run folder never decides what is imported: the user does, and is told what the run had."""
    missing = [name for name in record.get("imports") or [] if name not in parsed.all("import")]
    if missing:
        flags = " ".join(f"--import {name}" for name in missing)
        raise ConfigError(f"this run was made with code of yours; if you trust it, add: {flags}")


def watch(cli: RLCLI, mode: str) -> None:
    """One env that draws itself while it trains."""
    check_display(mode)
    arguments = cli.data_arguments()
    if "env" not in arguments:
        raise ConfigError("--render: this data has no env to draw")
    arguments.env.kwargs = {**(arguments.env.kwargs or {}), "render_mode": mode}
    for key, value in (("num_envs", 1), ("vectorization", "sync")):
        if key in arguments:
            arguments[key] = value


def check_display(mode: str) -> None:
    if mode != "human":
        raise ConfigError(f"--render takes human, not '{mode}'")
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        raise ConfigError("--render human: there is no display here; `rl play RUN` writes an mp4 instead")
