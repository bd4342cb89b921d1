"""Two processes on one machine, forked, so that nothing is imported twice."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from contracts import harness
from contracts.case import Case
from lightning.pytorch import Callback, Trainer

from rl_lightning.algorithms.ddp import AveragingDDP
from rl_lightning.clock.run_clock import RunConfig


class KeepWeights(Callback):
    """Every rank writes what it holds in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        torch.save(pl_module.state_dict(), self.folder / f"weights-{trainer.global_rank}.pt")


def fit(case: Case, folder: Path, until: int, resume: bool = False) -> list[dict[str, torch.Tensor]]:
    """A run of two ranks, stopped at `until`; returns the weights of both."""
    run = RunConfig(env_steps=10_000, eval_every=192, eval_episodes=4, save_minutes=None)
    strategy = AveragingDDP(start_method="fork")
    harness.fit(case, run, 5, folder, log_every=64, until=until, resume=resume, last=[KeepWeights(folder)],
                devices=2, strategy=strategy)  # fmt: skip
    return [torch.load(folder / f"weights-{rank}.pt", weights_only=True) for rank in range(2)]


def pair(work: Callable[[int], Any], folder: Path) -> list[Any]:
    """What `work(rank)` returns on each of two connected processes."""
    mp.start_processes(_connected, (work, str(folder)), nprocs=2, start_method="fork")
    return [torch.load(folder / f"result-{rank}.pt", weights_only=True) for rank in range(2)]


def _connected(rank: int, work: Callable[[int], Any], folder: str) -> None:
    os.environ["LOCAL_RANK"] = str(rank)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save(work(rank), Path(folder) / f"result-{rank}.pt")
    dist.destroy_process_group()
