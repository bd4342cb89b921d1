"""What every contender of resume.py trains. Plain values: each peer's venv reads this file too."""

from __future__ import annotations

import os
from typing import Any

SEED = 3
PPO: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs": 4,
    "rollout_steps": 64,
    "n_epochs": 4,
    "minibatch_size": 64,
    "hidden": [64, 64],
    "lr": 3e-4,
}
SAC: dict[str, Any] = {
    "env": "Pendulum-v1",
    "hidden": [128, 128],
    "batch_size": 128,
    "lr": 3e-4,
    "capacity": 100_000,
    "learning_starts": 100,
}
# (env steps in all, env steps between two checkpoints); both are multiples of a rollout of PPO
FULL = {"ppo": (2048, 256), "sac": (600, 50)}
QUICK = {"ppo": (1024, 256), "sac": (240, 40)}


def steps(rule: str) -> tuple[int, int]:
    """Of the size that resume.py asked for."""
    return (QUICK if os.environ.get("RL_RESUME_SIZE") == "quick" else FULL)[rule]
