"""A learned model as an env: `rl/Model-v0`, registered with Gymnasium when this is imported."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl_lightning.envs.registry import Env, gym_make

ID = "rl/Model-v0"

if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point="rl_lightning.envs.model_env.model_env:ModelEnv")


def known_ids() -> list[str]:
    return [ID]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    return gym_make(env_id, kwargs, max_episode_steps, render_mode)
