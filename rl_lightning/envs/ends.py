"""Whether an env ends its episodes: what planning in a learned model must know before the model is made."""

from __future__ import annotations

import numpy as np

from rl_lightning.envs.make import EnvConfig, make_env

STEPS = 1000
NEVER_END = ("dmc/",)  # by their time limit alone, and expensive to draw


def ends_by_itself(config: EnvConfig, steps: int = STEPS) -> bool:
    """Plays uniform actions until an episode terminates, or for `steps` steps; the same answer every time.

    An end that only skill meets, as a goal that is reached, is not seen.
    """
    if config.id.startswith(NEVER_END):
        return False
    env = make_env(config)
    random = np.random.default_rng(0)
    try:
        env.reset(seed=0)
        for step in range(steps):
            action = random.uniform(-1.0, 1.0, env.codec.shape).astype(np.float32)
            _, _, terminated, truncated, _ = env.step(action)
            if terminated:
                return True
            if truncated:
                env.reset(seed=step)
        return False
    finally:
        env.close()
