"""A run's folder: claimed once by all processes, with its config and its first record."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from rl_lightning.errors import ConfigError
from rl_lightning.io.atomic import write_text
from rl_lightning.redaction import redact, redact_words
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.config.config_version import stamped
from rl_lightning.runs.engine.init_distributed import is_launched_by_cluster
from rl_lightning.runs.request import Request
from rl_lightning.runs.store.run_folder import Run, alive, claim
from rl_lightning.runs.store.run_record import new_record

GROUP_SEEDS = "RL_GROUP_SEEDS"  # tells a run of a group of all its seeds


class Ended(NamedTuple):
    """How a fit ended: its exit code, and the run."""

    code: int
    run: Run


def is_first() -> bool:
    """This process writes the run's files and talks."""
    from rl_lightning import distributed

    return distributed.is_rank_zero()


def forget(run: Run, fresh: bool) -> None:
    """Takes a new run's folder away where nothing was trained in it: a run saves before its first block."""
    if fresh and not any(run.folder.glob("**/checkpoints/last-*")):
        shutil.rmtree(run.folder, ignore_errors=True)


def start_record(run: Run, saved: Config, request: Request) -> None:
    """Writes config.yaml and the first run.json."""
    write_config(run, saved)
    start_record_of(run, saved, request)


def start_record_of(run: Run, saved: Config, request: Request, **more: Any) -> None:
    import torch

    command = ["rl", request.verb, *redact_words(request.command)]
    record = new_record(saved, request.group, command, torch.get_num_threads(), run.folder)
    record["id"] = run.read().get("id") or record["id"]  # a stage that is resumed is the same one
    if seeds := os.environ.get(GROUP_SEEDS):
        more["group_seeds"] = [int(seed) for seed in seeds.split(",")]
    if request.given:
        more["given"] = sorted(request.given)  # in Python: config.yaml says what they were
    run.update(**record, **more, imports=request.imports, pid=os.getpid(), host=os.uname().nodename)


def write_config(run: Run, config: Config) -> None:
    text = yaml.safe_dump(stamped(redact(config)), sort_keys=False)
    write_text(run.config_file, f"# rl fit --config {run.config_file}\n{text}")


def check_not_running(run: Run, record: dict[str, Any]) -> None:
    """Two processes must not train one run. Those that the first one started are not two."""
    if is_launched_by_cluster():
        from rl_lightning import distributed

        distributed.on_rank_zero(lambda: _check_not_running_here(run, record))
    elif "LOCAL_RANK" not in os.environ:
        _check_not_running_here(run, record)


def _check_not_running_here(run: Run, record: dict[str, Any]) -> None:
    """The same, by the one process that decides."""
    if record.get("status") == "running" and record.get("pid") != os.getpid() and alive(record):
        raise ConfigError(f"run '{run.name}' is being trained by process {record['pid']}")


def claim_once(name: str | None, stem: str) -> Run:
    """One folder for all processes."""
    from rl_lightning import distributed

    return Run(Path(distributed.on_rank_zero(lambda: str(claim(name, stem).folder))))


def join() -> Run | None:
    """The run that the first rank made, for the others."""
    folder = os.environ.get("RL_RUN_DIR")
    return Run(Path(folder)) if folder and "LOCAL_RANK" in os.environ else None
