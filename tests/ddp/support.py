"""Two processes on one machine, forked, so that nothing is imported twice."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from contracts.cases import Case
from lightning.pytorch import Callback, Trainer

from rl_lightning.algorithms.ddp import AveragingDDP
from rl_lightning.callbacks import LogConfig, default_callbacks, make_loggers
from rl_lightning.callbacks.control import StopAt
from rl_lightning.callbacks.generations import Generations
from rl_lightning.rollout.schedule import RunConfig
from rl_lightning.seeding import seed_globals


class KeepWeights(Callback):
    """Every rank writes what it holds in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        torch.save(pl_module.state_dict(), self.folder / f"weights-{trainer.global_rank}.pt")


def fit(case: Case, folder: Path, until: int, resume: bool = False) -> list[dict[str, torch.Tensor]]:
    """A run of two ranks as `rl fit` and `rl resume` make it; returns the weights of both."""
    seed_globals(5)
    data = case.data()
    model = case.model(data.spec)
    data.configure(RunConfig(env_steps=10_000, eval_every=192, eval_episodes=4, save_minutes=None), 5)
    folder.mkdir(parents=True, exist_ok=True)
    log = LogConfig(tensorboard=False, every=64)
    generation = Generations(folder / "checkpoints").newest_whole()[0] if resume else None
    callbacks = [StopAt(until), *default_callbacks(folder, log, resume_from=generation), KeepWeights(folder)]
    trainer = Trainer(
        max_epochs=-1,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        accelerator="cpu",
        devices=2,
        strategy=AveragingDDP(start_method="fork"),
        logger=make_loggers(folder, log, "task", "group", "name", []),
        callbacks=callbacks,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    path = generation / "model.ckpt" if generation else None
    trainer.fit(model, datamodule=data, ckpt_path=path, weights_only=True)
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
