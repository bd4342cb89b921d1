"""stable-baselines3 at the settings of settings.py; runs in its own venv.

python sb3_worker.py ppo|dqn|sac full|quick
"""

from __future__ import annotations

import json
import sys
import time

import settings
import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env


class Stopwatch(BaseCallback):
    """Notes when the warm-up is over."""

    def __init__(self, warm: int) -> None:
        super().__init__()
        self.warm = warm
        self.begin: tuple[int, float] | None = None

    def _on_step(self) -> bool:
        if self.begin is None and self.num_timesteps >= self.warm:
            self.begin = self.num_timesteps, time.perf_counter()
        return True


def build(rule: str):
    s = {"ppo": settings.PPO, "dqn": settings.DQN, "sac": settings.SAC}[rule]
    env = make_vec_env(s["env"], s.get("num_envs", 1), seed=0)
    shared = {
        "learning_rate": s["lr"],
        "device": "cpu",
        "seed": 0,
        "policy_kwargs": {"net_arch": s["hidden"]},
    }
    if rule == "ppo":
        return PPO(
            "MlpPolicy",
            env,
            n_steps=s["rollout_steps"],
            batch_size=s["minibatch_size"],
            n_epochs=s["n_epochs"],
            gamma=s["gamma"],
            gae_lambda=s["lam"],
            clip_range=s["clip_range"],
            max_grad_norm=s["max_grad_norm"],
            **shared,
        )
    shared |= {
        "buffer_size": s["capacity"],
        "learning_starts": s["learning_starts"],
        "batch_size": s["batch_size"],
    }
    if rule == "sac":
        return SAC("MlpPolicy", env, **shared)
    return DQN(
        "MlpPolicy",
        env,
        train_freq=s["train_every"],
        gradient_steps=s["updates"],
        target_update_interval=s["target_every"],
        exploration_fraction=s["explore_fraction"],
        exploration_final_eps=s["explore_end"],
        **shared,
    )


def main() -> None:
    rule, total_warm = sys.argv[1], settings.steps(sys.argv[1], sys.argv[2] == "quick")
    torch.set_num_threads(settings.threads())
    watch = Stopwatch(total_warm[1])
    model = build(rule).learn(total_warm[0], callback=watch)
    assert watch.begin is not None
    steps, begin = watch.begin
    print(json.dumps({"rate": (model.num_timesteps - steps) / (time.perf_counter() - begin)}))


if __name__ == "__main__":
    main()
