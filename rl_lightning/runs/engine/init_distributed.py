"""Processes that a cluster's launcher started: they meet before anything is decided, since one decides for all."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rl_lightning.io.lock import FileLock
from rl_lightning.runs.store.run_folder import Run


def is_launched_by_cluster() -> bool:
    """Whether torchrun or srun started several of us. (Lightning starts its own later, and tells them the folder.)"""
    torchrun = "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1
    srun = "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1
    return torchrun or srun


def init_distributed() -> None:
    """Makes the process group now; Lightning takes one that is there as it is."""
    if not is_launched_by_cluster():
        return
    import torch.distributed as dist
    from lightning.pytorch.plugins.environments import SLURMEnvironment, TorchElasticEnvironment
    from torch.cuda import is_available

    if dist.is_initialized():
        return
    elastic = TorchElasticEnvironment.detect()
    environment = TorchElasticEnvironment() if elastic else SLURMEnvironment(auto_requeue=False)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = (
        environment.main_address,
        str(environment.main_port),
    )
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if is_available() else "gloo",
        rank=environment.global_rank(),
        world_size=environment.world_size(),
    )
    atexit.register(lambda: dist.destroy_process_group() if dist.is_initialized() else None)


@contextmanager
def run_lock(run: Run) -> Iterator[None]:
    """While it lasts no other process trains this run; those that belong to this one are no others."""
    lock = FileLock(run.folder / ".lock", f"run '{run.name}' is being trained by another process")
    if is_launched_by_cluster():
        from rl_lightning import distributed

        distributed.on_rank_zero(lock.take)
    elif "LOCAL_RANK" not in os.environ:
        lock.take()
    try:
        yield
    finally:
        lock.leave()
