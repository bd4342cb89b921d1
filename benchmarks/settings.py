"""The equal settings of every contender. Plain values: each peer's venv reads this file too."""

from __future__ import annotations

import os
from typing import Any

PPO: dict[str, Any] = {
    "env": "CartPole-v1",
    "num_envs": 8,
    "rollout_steps": 128,
    "n_epochs": 4,
    "minibatch_size": 256,
    "hidden": [64, 64],  # tanh, policy and value apart
    "lr": 3e-4,
    "gamma": 0.99,
    "lam": 0.95,
    "clip_range": 0.2,
    "max_grad_norm": 0.5,
}
DQN: dict[str, Any] = {  # the tuned settings of rl-zoo
    "env": "CartPole-v1",
    "hidden": [256, 256],
    "batch_size": 64,
    "lr": 2.3e-3,
    "capacity": 100_000,
    "learning_starts": 1000,
    "train_every": 256,
    "updates": 128,
    "target_every": 10,
    "explore_fraction": 0.16,
    "explore_end": 0.04,
}
SAC: dict[str, Any] = {
    "env": "Hopper-v5",
    "hidden": [256, 256],
    "batch_size": 256,
    "lr": 3e-4,
    "capacity": 1_000_000,
    "learning_starts": 500,
}
# (env steps in all, env steps that only warm up), and the same for --quick
STEPS = {"ppo": (81_920, 16_384), "dqn": (16_000, 4_000), "sac": (2_500, 700)}
QUICK = {"ppo": (24_576, 8_192), "dqn": (4_000, 2_000), "sac": (1_000, 700)}


def threads() -> int:
    """Of every contender; `run.py --threads` sets it."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


def steps(rule: str, quick: bool) -> tuple[int, int]:
    return (QUICK if quick else STEPS)[rule]
