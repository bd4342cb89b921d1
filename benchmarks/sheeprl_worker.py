"""sheeprl at the settings of settings.py; runs in its own venv.

    python sheeprl_worker.py ppo|sac full|quick

Its command is run twice in one process, short and long: the difference holds no start-up and no warm-up.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import time

import settings
from sheeprl.cli import run

COMMON = [
    "env=gym",
    "env.sync_env=True",
    "env.capture_video=False",
    "metric.log_level=0",
    "checkpoint.every=1000000000",
    "checkpoint.save_last=False",
    "buffer.memmap=False",
    "algo.run_test=False",
    "fabric.accelerator=cpu",
    "fabric.devices=1",
    f"num_threads={settings.threads()}",
]


def options(rule: str) -> list[str]:
    if rule == "ppo":
        s = settings.PPO
        return [
            "exp=ppo",
            f"env.id={s['env']}",
            f"env.num_envs={s['num_envs']}",
            f"algo.rollout_steps={s['rollout_steps']}",
            f"algo.per_rank_batch_size={s['minibatch_size']}",
            f"algo.update_epochs={s['n_epochs']}",
            "algo.mlp_keys.encoder=[state]",
            f"algo.optimizer.lr={s['lr']}",
            f"algo.max_grad_norm={s['max_grad_norm']}",
            "algo.dense_units=64",
            "algo.mlp_layers=2",
        ]
    s = settings.SAC
    return [
        "exp=sac",
        f"env.id={s['env']}",
        "env.num_envs=1",
        f"algo.per_rank_batch_size={s['batch_size']}",
        f"algo.learning_starts={s['learning_starts']}",
        "algo.replay_ratio=1.0",
        "algo.mlp_keys.encoder=[state]",
        f"buffer.size={s['capacity']}",
    ]


def seconds(rule: str, steps: int) -> float:
    sys.argv = ["sheeprl", *options(rule), *COMMON, f"algo.total_steps={steps}"]
    begin = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        run()
    return time.perf_counter() - begin


def main() -> None:
    rule = sys.argv[1]
    total, warm = settings.steps(rule, sys.argv[2] == "quick")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        short, long = seconds(rule, warm), seconds(rule, total)
        os.chdir("/")
    print(json.dumps({"rate": (total - warm) / (long - short)}))


if __name__ == "__main__":
    main()
