"""Workers of a sweep as cluster jobs, by submitit: each runs the same command on the same study."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, RLError

CLUSTERS = ("slurm", "local", "debug")


class ClusterWorker:
    """One worker. A job that the cluster stops is queued again and goes on: the study knows what is done.

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
        raise ConfigError("--launcher submitit needs it: pip install 'rl-lightning[sweep]'") from None
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
