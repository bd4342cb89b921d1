"""OGBench's envs: `cube-single-singletask-task1-v0`, where its data sets of single tasks are evaluated.

Without `singletask` each episode has a goal of its own, told beside the observation: policies here do not see it.
"""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium

from rl_lightning.envs.registry import Env, gym_make
from rl_lightning.envs.suites.gl import choose_renderer, prepare_gl

prepare_gl()  # its dm_control chooses its GL once, when it is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # GLFW complains of a missing display that states do not need
    import ogbench  # noqa: F401  (registers the ids)


def known_ids() -> list[str]:
    return [name for name, spec in gymnasium.registry.items() if str(spec.entry_point).startswith("ogbench.")]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    if render_mode is not None or env_id.startswith("visual-"):
        choose_renderer()
    return gym_make(env_id, kwargs, max_episode_steps, render_mode)
