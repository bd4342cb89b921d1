"""A config with stages: fitted, shown and resumed."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rl_lightning import distributed
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import locate_artifact
from rl_lightning.redaction import redact, redact_words
from rl_lightning.runs.config.compose import Config, find, inline
from rl_lightning.runs.config.parsing import import_packages, parse_config
from rl_lightning.runs.engine.fit import (
    check_display,
    close,
    given_name,
    note_settled,
    stem_of,
    steps_an_env,
    watch,
)
from rl_lightning.runs.engine.folder import (
    Ended,
    _check_not_running_here,
    forget,
    is_first,
    join,
    start_record_of,
    write_config,
)
from rl_lightning.runs.engine.init_distributed import init_distributed, run_lock
from rl_lightning.runs.engine.stage_objects import Objects, by_stage, check_all_again, marks
from rl_lightning.runs.pipeline.check_data import check_data
from rl_lightning.runs.pipeline.ledger import Ledger
from rl_lightning.runs.pipeline.plan import Job, make_plan, select_jobs, set_key
from rl_lightning.runs.pipeline.reach import check_reach, dotted_keys, flags_of, key_of, name_of
from rl_lightning.runs.pipeline.run_stages import Pipeline
from rl_lightning.runs.recording.missing import record_missing_data
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run, artifacts_dir, claim, last_number, logs_root
from rl_lightning.stop_request import StoppedBySignal, signals_raise

if TYPE_CHECKING:
    from rl_lightning.runs.config.build import RLCLI

NOTED: set[str] = set()  # what was said of the data before the first stage, and is not said again
DEBUG_CYCLES = 1  # the next ones do the same again


def fit_pipeline(config: Config, request: Request, names: list[str]) -> Ended:
    import_packages(request)
    if request.render:
        check_display(request.render)
    pipeline, flags = override(inline(config, find(names[0]).parent), request)
    if request.small:
        pipeline["cycles"] = min(pipeline.get("cycles", 1), DEBUG_CYCLES)
    name, stem = given_name(request, {"run": {"name": name_of(config)}}), stem_of(names, config)
    jobs = make_plan(pipeline, check_stage_config)
    request = replace(request, debug_seconds=request.debug_seconds / len(jobs))
    chosen = select_jobs(jobs, request.begin, request.only)  # before a folder is claimed for nothing
    check_begun(request, name, stem)
    objects = by_stage(request.given, jobs)
    note_reach(jobs, pipeline, flags)
    check_stages(jobs, request, flags, objects)
    init_distributed()
    check_rows(None if name is None else logs_root() / name, chosen, request, flags, objects)

    def claimed() -> str:
        return str(open_run(name, stem, pipeline, request).folder)

    fresh = is_first() and not (name and (logs_root() / name).exists())
    run = join() or Run(Path(distributed.on_rank_zero(claimed)))
    try:
        with run_lock(run):
            return Ended(run_jobs(run, jobs, request, flags, objects), run)
    except BaseException:
        forget(run, fresh)
        raise


def check_begun(request: Request, name: str | None, stem: str) -> None:
    """`--from` does stages of a run again: of which one, where no name says so?"""
    if request.begin is not None and not (name and (logs_root() / name).is_dir()):
        newest = name or f"{stem}-{max(1, last_number(logs_root(), stem))}"
        raise ConfigError(
            f"--from {request.begin}: does stages of a pipeline's run again; type: "
            f"rl resume {newest} --from {request.begin}"
        )


def show_pipeline(config: Config, request: Request, names: list[str], sizes: bool) -> int:
    """Every stage, resolved; with `sizes` in one screen, with the time it takes."""
    import_packages(request)
    pipeline, flags = override(inline(config, find(names[0]).parent), request)
    jobs = make_plan(pipeline, check_stage_config)
    note_reach(jobs, pipeline, flags)

    def parse(job: Job, places: Mapping[str, str]) -> RLCLI:
        return parsed_stage(job, places, request, flags, {})

    if sizes:
        from rl_lightning.runs.pipeline.show_stages import show_overview

        show_overview(jobs, parse, names, say)
    else:
        from rl_lightning.runs.pipeline.show_stages import show_settings

        show_settings(jobs, parse, say)
    return 0


def resume_pipeline(run: Run, config: Config, request: Request) -> int:
    import_packages(request)
    pipeline, new_flags = override(config, request)
    first_flags: dict[str, list[str]] = run.read().get("flags") or {}
    flags = {
        key: [*first_flags.get(key, []), *new_flags.get(key, [])] for key in {"", *first_flags, *new_flags}
    }
    jobs = make_plan(pipeline, check_stage_config)
    chosen = select_jobs(jobs, request.begin, request.only)
    note_reach(jobs, pipeline, new_flags)
    record = run.read()
    check_all_again(record.get("given") or [], request.given)
    objects = by_stage(request.given, jobs)
    request = replace(request, small=bool(record.get("debug", False)))
    check_stages(jobs, request, flags, objects)
    check_rows(run.folder, chosen, request, flags, objects)
    return run_jobs(run, jobs, request, flags, objects)


def note_reach(jobs: list[Job], pipeline: Config, flags: dict[str, list[str]]) -> None:
    """Refuses what is for all stages and no stage has; says of what only some have which ones they are."""
    configs = {job.stage: job.config for job in jobs}
    laid_over = dotted_keys(pipeline.get("overlay") or {})
    for line in check_reach(configs, [*laid_over, *map(key_of, flags[""])]):
        if is_first():
            print(f"note: {line}", file=sys.stderr)


def check_stage_config(name: str) -> Config:
    raise ConfigError(f"stage config '{name}' was not found when the run was made")


def override(config: Config, request: Request) -> tuple[Config, dict[str, list[str]]]:
    """Applies --stages.NAME.inputs.KEY; returns the flags of each stage, those for all under ''."""
    flags: dict[str, list[str]] = {"": []}
    given: list[tuple[Config, str, Any]] = []
    stages = {stage.get("name"): stage for stage in config["stages"] if isinstance(stage, dict)}
    for flag in request.overrides:
        key, _, value = flag[2:].partition("=")
        head, *rest = key.split(".")
        if head != "stages":
            if not key.startswith("run.name"):
                flags[""].append(flag)
            continue
        if len(rest) < 2 or rest[0] not in stages:
            raise ConfigError(
                f"--{key}: write --stages.NAME.KEY VALUE; the stages are {', '.join(map(str, stages))}"
            )
        stage, dotted = stages[rest[0]], ".".join(rest[1:])
        if rest[1] == "inputs":
            given.append((stage, ".".join(rest[2:]), yaml.safe_load(value)))
        elif rest[1] in ("artifact", "once", "warm_start", "skip"):
            set_key(stage, dotted, yaml.safe_load(value))
        else:
            flags.setdefault(rest[0], []).append(f"--{dotted}={value}")
    left_out = [name for name, stage in stages.items() if stage.get("skip")]
    for stage, dotted, source in given:
        is_run = source in left_out and (logs_root() / source).is_dir()  # one that is called like the stage
        source = str(logs_root() / source) if is_run else source
        stage["inputs"] = {**(stage.get("inputs") or {}), dotted: source}
    return config, flags


def say(text: str) -> None:
    if is_first():
        print(text, flush=True)


def parsed_stage(
    job: Job, places: Mapping[str, str], request: Request, flags: dict[str, list[str]], objects: Objects
) -> RLCLI:
    """A stage with something in the place of each artifact that it takes."""
    config = copy.deepcopy(job.config)
    for dotted, place in places.items():
        set_key(config, dotted, place)
    try:
        return parse_config(config, stage_request(request, job, flags, objects))
    except ConfigError as error:
        asked = re.sub(r"--((?:model|data)\.\S+) RUN", rf"--stages.{job.stage}.inputs.\1 RUN", str(error))
        raise ConfigError(f"stage {job.stage}: {asked}") from error


def check_stages(jobs: list[Job], request: Request, flags: dict[str, list[str]], objects: Objects) -> None:
    """Refuses what the last stage would refuse before the first one has run for hours."""
    from rl_lightning.envs.registry import find_suite
    from rl_lightning.runs.config.places import check_places

    keys = {job.key for job in jobs}
    for source in {source for job in jobs for source in job.inputs.values()} - keys:
        locate_artifact(source)
    for job in {
        job.stage: job for job in reversed(jobs)
    }.values():  # a later cycle differs in its artifacts alone
        places = {dotted: f"artifact of {source}" for dotted, source in job.inputs.items()}
        cli = parsed_stage(job, places, request, flags, objects)
        cli.refuse_redacted()
        check_places(cli.config.trainer, cli.flags)
        env = cli.data_arguments().get("env")
        if env is not None and env.id:
            find_suite(env.id)


def check_rows(
    folder: Path | None, jobs: list[Job], request: Request, flags: dict[str, list[str]], objects: Objects
) -> None:
    """Refuses recorded data that a stage would refuse, of the stages that are still to be done."""
    done = {} if folder is None or request.begin else Ledger(folder / "pipeline.json").read()
    left = [job for job in jobs if done.get(job.key, {}).get("status") != "done"]

    def parse(job: Job) -> RLCLI:
        places = {dotted: f"artifact of {source}" for dotted, source in job.inputs.items()}
        return parsed_stage(job, places, request, flags, objects)

    distributed.on_rank_zero(lambda: check_data(left, parse, NOTED))


def stage_request(request: Request, job: Job, flags: dict[str, list[str]], objects: Objects) -> Request:
    return replace(request, overrides=own_flags(job, flags), given=objects.get(job.stage, {}))


def own_flags(job: Job, flags: dict[str, list[str]]) -> list[str]:
    """Those for all that the stage has, then its own."""
    return [*flags_of(job.config, flags[""]), *flags.get(job.stage, [])]


def open_run(name: str | None, stem: str, pipeline: Config, request: Request) -> Run:
    """A claimed folder with the whole pipeline in its config.yaml; a run of the given name is resumed if nothing
    differs."""
    if name is not None and (logs_root() / name / "pipeline.json").is_file():
        _check_not_running_here(Run(logs_root() / name), Run(logs_root() / name).read())
        return Run(logs_root() / name)  # started again: what is done is skipped, what has changed is told of
    run = claim(name, stem)
    write_config(run, pipeline)
    start_record_of(run, pipeline, request, kind="pipeline")
    return run


def find_checkpoint(folder: Path, which: str) -> Path:
    return Run(folder).checkpoint(which)


def run_jobs(
    run: Run, jobs: list[Job], request: Request, flags: dict[str, list[str]], objects: Objects
) -> int:
    os.environ["RL_RUN_DIR"] = str(run.folder.resolve())
    for job in jobs:
        job.flags = [*own_flags(job, flags), *marks(objects[job.stage])]

    def fit(job: Job, folder: Path, config: Config, before: Path | None, title: str) -> int:
        return fit_stage(
            Run(folder), config, stage_request(request, job, flags, objects), before, title, job.artifact
        )

    pipeline = Pipeline(run.folder, jobs, fit, find_checkpoint, say, artifacts_dir(), is_first())
    ledger_before = read_text(run.folder / "pipeline.json")
    # Flags belong to the run, the newest last: its resumption has them too.
    shown = {stage: redact_words(words) for stage, words in flags.items()}
    entries = {"status": "failed", "flags": shown, "debug": request.small}
    before = {key: run.read().get(key, entries[key]) for key in entries}
    if is_first():
        run.update(**entries | {"status": "running"}, pid=os.getpid(), host=os.uname().nodename)
    try:
        with signals_raise():
            code = pipeline.run(request.begin, request.only)
        entries["status"] = "interrupted" if code else "finished"
    except (KeyboardInterrupt, StoppedBySignal):
        entries["status"] = "interrupted"
        say(f"stopped between two stages; continue with: rl resume {run.name}")
        raise
    except ConfigError:
        if (
            read_text(run.folder / "pipeline.json") == ledger_before
        ):  # refused before a stage began: all is as it was
            entries = before
        raise
    finally:
        if is_first():
            run.update(**entries)
    say(f"pipeline done: {run.folder}" if code == 0 else f"stopped; continue with: rl resume {run.name}")
    return code


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def fit_stage(
    run: Run, config: Config, request: Request, before: Path | None, title: str, artifact: str = "best"
) -> int:
    """Trains one stage in its folder, resuming from its own checkpoints if there are any; a policy is evaluated last,
    with the weights that become its artifact."""
    from rl_lightning.runs.engine.fit_session import FitSession, debug_monitor
    from rl_lightning.runs.engine.run_start import newest, start_from

    cli = parse_config(config, request)
    note_settled(cli)
    saved: dict[str, Any] = cli.plain()
    if request.render and steps_an_env(cli):
        watch(cli, request.render)
    if any(run.checkpoints()):
        start = start_from(str(newest(run)), "exact")
    elif before is not None:
        start = start_from(str(before), "warm_start_optimizer")
    else:
        start = start_from(cli.config.ckpt_path, cli.config.resume_mode)
    record_missing_data(cli.config)
    cli.build()
    if is_first():
        write_config(run, saved)
        origin = {} if before is None else {"warm_started_from": before.parent.name}
        start_record_of(run, saved, request, **origin)
    session = FitSession(cli, run, redact(saved), debug_monitor(run, request), start, title)
    session.noted = NOTED
    code = session.fit()
    if code == 0:
        close(cli, run, request, artifact)
    return code
