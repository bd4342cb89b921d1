"""Processes that a cluster's launcher started: they meet before anything is decided, since one decides for all."""

from __future__ import annotations

import atexit
import os


def launched() -> bool:
    """Whether torchrun or srun started several of us. (Lightning starts its own later, and tells them the folder.)"""
    torchrun = "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1
    srun = "SLURM_STEP_ID" in os.environ and int(os.environ.get("SLURM_NTASKS", "1")) > 1
    return torchrun or srun


def meet() -> None:
    """Makes the process group now; Lightning takes one that is there as it is."""
    if not launched():
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
