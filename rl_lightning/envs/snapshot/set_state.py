"""Putting an env where an observation says it was: what true dynamics do from a recorded state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rl_lightning.envs.registry import Env


def can_set_state(env: Env) -> bool:
    """Whether the env's whole state can be read off its observation: an env of the user's own has a method for it."""
    return _own(env) is not None or _family(env) is not None


def set_state_from_obs(env: Env, obs: NDArray[np.float32]) -> None:
    """Resets the env, then sets its state to that of the observation."""
    env.reset(seed=0)
    if (place := _own(env)) is not None:
        place(np.asarray(obs))
        return
    raw: Any = env.unwrapped
    row = np.asarray(obs, np.float64)
    family = _family(env)
    if (
        family == "locomotion"
    ):  # positions but the first, then velocities: where the body is along x changes nothing
        positions = raw.model.nq - 1
        raw.set_state(np.concatenate([[0.0], row[:positions]]), row[positions:])
    elif family == "pendulum":
        raw.state = np.array([np.arctan2(row[1], row[0]), row[2]])
        raw.last_u = None
    elif family == "hole":
        raw.position = row
    else:
        raise ValueError(f"{type(raw).__name__} cannot be placed by its observation")


def _own(env: Env) -> Any:
    """`set_state_from_obs(obs)` of an env that can be put where an observation says."""
    method = getattr(env.unwrapped, "set_state_from_obs", None)
    return method if callable(method) else None


def _family(env: Env) -> str | None:
    name = type(env.unwrapped).__name__
    if name in ("HopperEnv", "Walker2dEnv", "HalfCheetahEnv"):
        return "locomotion"
    return {"PendulumEnv": "pendulum", "Hole": "hole"}.get(name)
