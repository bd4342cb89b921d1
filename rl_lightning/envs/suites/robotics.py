"""Gymnasium-Robotics: mazes, Fetch, hands. Goals are part of the flat observation, in key order."""

from __future__ import annotations

import contextlib
import io
import sys
import types
from typing import Any

import gymnasium
import mujoco

from rl_lightning.envs.registry import Env, gym_make
from rl_lightning.extras import needs_mujoco_py

with contextlib.redirect_stderr(io.StringIO()) as _said:
    import gymnasium_robotics
    from gymnasium_robotics.utils import mujoco_utils

# It greets with four lines on Adroit's rewards, which are put right below; anything else it says is passed on.
sys.stderr.write("".join(line for line in _said.getvalue().splitlines(True) if "AdroitHand" not in line))
gymnasium.register_envs(gymnasium_robotics)
JOINTS = ("mjJNT_FREE", "mjJNT_BALL", "mjJNT_SLIDE", "mjJNT_HINGE")


class _MujocoWithPlainJoints(types.ModuleType):
    """MuJoCo as Gymnasium-Robotics reads it: kinds of joints are numbers, which a model's `jnt_type` equals.

    Since MuJoCo 3.17 its own are equal to no number of numpy's, and every Fetch, Hand and Franka env fails to be made.
    """

    mjtJoint = types.SimpleNamespace(**{name: int(getattr(mujoco.mjtJoint, name)) for name in JOINTS})

    def __getattr__(self, name: str) -> Any:
        return getattr(mujoco, name)


mujoco_utils.mujoco = _MujocoWithPlainJoints("mujoco")


def known_ids() -> list[str]:
    """Those that can be made: older versions want mujoco_py, which is no longer made."""
    entries = {name: str(spec.entry_point) for name, spec in gymnasium.registry.items()}
    return [
        name
        for name, entry in entries.items()
        if entry.startswith("gymnasium_robotics.") and not needs_mujoco_py(entry)
    ]


def build(env_id: str, kwargs: dict[str, Any], max_episode_steps: int | None, render_mode: str | None) -> Env:
    kwargs = dict(kwargs)
    ends = kwargs.pop("ends_when_dropped", False) if env_id.startswith("AdroitHandPen") else False
    env = gym_make(env_id, kwargs, max_episode_steps, render_mode)
    if not env_id.startswith("AdroitHand"):
        return env
    from rl_lightning.envs.suites.adroit import wrap

    return wrap(env, env_id, bool(ends))
