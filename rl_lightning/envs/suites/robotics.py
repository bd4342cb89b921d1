"""Gymnasium-Robotics: mazes, Fetch, hands. Goals are part of the flat observation, in key order."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import Any

import gymnasium

from rl_lightning.envs.registry import Env, gym_make

with contextlib.redirect_stderr(io.StringIO()) as _said:
    import gymnasium_robotics

# It greets with four lines on Adroit's rewards, which are put right below; anything else it says is passed on.
sys.stderr.write("".join(line for line in _said.getvalue().splitlines(True) if "AdroitHand" not in line))
gymnasium.register_envs(gymnasium_robotics)


def known_ids() -> list[str]:
    registered = gymnasium.registry.items()
    return [name for name, spec in registered if str(spec.entry_point).startswith("gymnasium_robotics.")]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    kwargs = dict(kwargs)
    ends = kwargs.pop("ends_when_dropped", False) if env_id.startswith("AdroitHandPen") else False
    env = gym_make(env_id, kwargs, max_episode_steps, render_mode)
    if not env_id.startswith("AdroitHand"):
        return env
    from rl_lightning.envs.suites.adroit import wrap

    return wrap(env, env_id, bool(ends))
