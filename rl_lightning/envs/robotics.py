"""Gymnasium-Robotics: mazes, Fetch, hands. Goals are part of the flat observation, in key order."""

from __future__ import annotations

from typing import Any

import gymnasium
import gymnasium_robotics

from rl_lightning.envs.registry import Env, gym_make

gymnasium.register_envs(gymnasium_robotics)


def known_ids() -> list[str]:
    found = gymnasium.registry.items()
    return [name for name, spec in found if str(spec.entry_point).startswith("gymnasium_robotics.")]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    return gym_make(env_id, kwargs, max_episode_steps, render_mode)
