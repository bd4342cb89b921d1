"""Workers of a sweep as cluster jobs, by submitit: each runs the same command on the same study."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, RLError
from rl_lightning.extras import pip_command
from rl_lightning.runs.config import yaml_io
from rl_lightning.runs.store.names import did_you_mean

CLUSTERS = ("slurm", "local", "debug")
# What a sweep's file may ask of a cluster: resources. Everything else that submitit takes can run a command.
RESOURCES = (
    "cluster", "timeout_min", "slurm_time", "mem_gb", "slurm_mem", "cpus_per_task", "gpus_per_node", "nodes",
    "slurm_gpus_per_task", "slurm_partition", "slurm_account", "slurm_qos",
)  # fmt: skip
# Each becomes a line of a shell script: no line break, no quote, no space.
_PLAIN = re.compile(r"[A-Za-z0-9_.,:@+-]{1,64}")
OPTIONS = "RL_LAUNCHER_OPTIONS"  # YAML mapping of the user's own, like --launcher_options


def check_resources(options: dict[str, Any]) -> dict[str, Any]:
    """The launcher block of a sweep's file, which may be a stranger's."""
    for key, value in options.items():
        if key not in RESOURCES:
            hint = did_you_mean(str(key), RESOURCES) or f" (allowed: {', '.join(RESOURCES)})"
            raise ConfigError(
                f"launcher.{key} is not allowed in a sweep's file{hint}\n"
                f"options that run commands come from you: --launcher_options '{{{key}: ...}}' or {OPTIONS}"
            )
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number and not (isinstance(value, str) and _PLAIN.fullmatch(value)):
            raise ConfigError(f"launcher.{key} is {value!r:.60}; it must be a number or one plain word")
    return options


def user_options(text: str | None) -> dict[str, Any]:
    """Options of submitit that the user gave: by the environment, and over them by the command line.

    Args:
        text: What --launcher_options says, as YAML.
    """
    options: dict[str, Any] = {}
    for where, value in ((OPTIONS, os.environ.get(OPTIONS)), ("--launcher_options", text)):
        part = yaml_io.loads(value or "{}", where)
        if not isinstance(part, dict):
            raise ConfigError(
                f"{where} takes a mapping like '{{slurm_setup: [module load cuda]}}', not {value!r:.60}"
            )
        options |= part
    return options


class ClusterWorker:
    """One worker. A job that the cluster stops is queued again and continues: the study knows what is done.

    Args:
        command: Argument list.
        folder: Where to run it.
    """

    def __init__(self, command: list[str], folder: str) -> None:
        self.command, self.folder = command, folder

    def __call__(self) -> int:
        code = subprocess.run(self.command, cwd=self.folder, check=False).returncode
        if code:
            raise RLError(f"the worker ended with exit {code}")
        return code

    def checkpoint(self) -> Any:
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(command: list[str], name: str, folder: Path, workers: int, options: dict[str, Any]) -> list[str]:
    """Sends so many workers to the cluster; their job ids."""
    try:
        import submitit
    except ImportError:
        raise ConfigError(f"--launcher submitit needs it: {pip_command('sweep')}") from None
    options = {"timeout_min": 24 * 60, **options}
    cluster = options.pop("cluster", None)
    if cluster is not None and cluster not in CLUSTERS:
        raise ConfigError(f"launcher.cluster is {cluster!r}; one of {', '.join(CLUSTERS)}")
    place = folder / "submitit"
    try:
        executor = submitit.AutoExecutor(folder=str(place), cluster=cluster)
        if cluster is None and executor.cluster != "slurm":
            raise ConfigError(
                "no SLURM here (sbatch is missing); launcher: {cluster: local} starts local workers"
            )
        executor.update_parameters(name=name, **options)
        jobs = [executor.submit(ClusterWorker(command, str(Path.cwd()))) for _ in range(workers)]
    except (NameError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise ConfigError(
            f"submitit: {(str(error).splitlines() or [type(error).__name__])[0][:200]}"
        ) from error
    return [str(job.job_id) for job in jobs]
