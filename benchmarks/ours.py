"""rl_lightning at the settings of settings.py: builds and trains as `rl fit` does, with the callbacks of every run.

python ours.py ppo|dqn|sac full|quick [precision]
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import settings
import torch
from lightning.pytorch import Callback, Trainer

from rl_lightning.algorithms import DQN, PPO, SAC
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.callbacks import LogConfig, Titles, default_callbacks, make_loggers
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import OnlineData, OnPolicyData
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.envs.make import EnvConfig
from rl_lightning.functional.advantage_estimators import GAE
from rl_lightning.kernels.malloc import set_malloc_thresholds
from rl_lightning.nn.mlp import MLP
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay import Replay
from rl_lightning.seeding import seed_globals

LOG_EVERY = 500  # as in a run of 100,000 steps; a run of 2,500 would by itself write metrics every 12


def build(rule: str) -> tuple[RLData, RLModule]:
    """Data and module at the shared settings."""
    seed_globals(0)
    if rule == "ppo":
        s = settings.PPO
        data: Any = OnPolicyData(EnvConfig(id=s["env"]), s["num_envs"], s["rollout_steps"])
        keys = ("lr", "gamma", "n_epochs", "minibatch_size", "clip_range", "max_grad_norm")
        network = partial(MLP, hidden_dims=s["hidden"], activation="tanh")
        return data, PPO(data.spec, network, advantage=GAE(s["lam"]), **{key: s[key] for key in keys})
    s = settings.DQN if rule == "dqn" else settings.SAC
    every = s.get("train_every", 1)
    data = OnlineData(
        EnvConfig(id=s["env"]),
        batch_size=s["batch_size"],
        buffer=partial(Replay, capacity=s["capacity"]),
        learning_starts=s["learning_starts"],
        train_every=every,
        utd_ratio=s.get("updates", 1) / every,
    )
    if rule == "sac":
        network = partial(MLP, hidden_dims=s["hidden"], activation="relu", init="default")
        return data, SAC(data.spec, network, critic_hidden_dims=s["hidden"], lr=s["lr"])
    return data, DQN(
        data.spec,
        partial(MLP, hidden_dims=s["hidden"], activation="relu"),
        lr=s["lr"],
        double_q=False,
        target_every=s["target_every"],
        epsilon_schedule=Linear(s["explore_end"], s["explore_fraction"]),
    )


def fit(rule: str, steps: int, watch: Callback, precision: str = "32-true") -> None:
    """Trains with the loggers and callbacks of every run; `watch` sees each block last but for what saves."""
    data, model = build(rule)
    data.configure(RunConfig(env_steps=steps), 0)
    log = LogConfig(every=LOG_EVERY)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            max_epochs=-1,
            limit_val_batches=0,
            num_sanity_val_steps=0,
            enable_checkpointing=True,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            accelerator="cpu",
            devices=1,
            precision=precision,  # type: ignore[arg-type]
            logger=make_loggers(Path(folder), log, Titles("bench", "bench", "bench", [], "bench")),
            callbacks=[*default_callbacks(Path(folder), log), watch],
            default_root_dir=folder,
        )
        trainer.fit(model, datamodule=data)


class Stopwatch(Callback):
    """Env steps per second once the warm-up is over."""

    def __init__(self, warm: int) -> None:
        self.warm = warm
        self.begin: tuple[int, float] | None = None
        self.rate = 0.0

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        now = trainer.datamodule.clock.env_step
        if self.begin is None:
            self.begin = (now, time.perf_counter()) if now >= self.warm else None
        else:
            self.rate = (now - self.begin[0]) / (time.perf_counter() - self.begin[1])


def quiet() -> None:
    torch.set_num_threads(settings.threads())
    set_malloc_thresholds()  # as `rl fit` does
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    os.environ.setdefault("PYTHONWARNINGS", "ignore")


def main() -> None:
    quiet()
    rule, size, *rest = sys.argv[1:]
    total, warm = settings.steps(rule, size == "quick")
    watch = Stopwatch(warm)
    fit(rule, total, watch, *rest)
    print(json.dumps({"rate": watch.rate}))


if __name__ == "__main__":
    main()
