"""Behaviour that is written down instead of learned: what the data of our own small tasks are recorded from."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.errors import DataError
from rl_lightning.functional.policy import standard_noise
from rl_lightning.rollout.collect import Act
from rl_lightning.types import Carry

WIDE = 0.7  # how far from the hole's middle a careful walker keeps
PACE, NOISE = 0.5, 0.3  # of the longest step


def around_the_hole(
    obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
) -> tuple[Tensor, Carry]:
    """Walks around the hole of rl/Hole at a leisurely pace, on the side where it stands, and then to the goal."""
    x, y = obs[:, 0], obs[:, 1]
    away = obs.norm(dim=-1).clamp_min(1e-6)
    side = torch.where(y >= 0, 1.0, -1.0)
    outward = obs / away[:, None]
    along = torch.stack((side * y, -side * x), -1) / away[:, None]  # clockwise above, the other way below
    circle = along + 4.0 * (WIDE - away)[:, None] * outward
    goal = torch.tensor([0.9, 0.0]) - obs
    clear = (x > 0.45) | (away > 1.05) & (x > 0)
    aim = torch.where(((away < 1.0) & ~clear)[:, None], circle, torch.where((x < 0)[:, None], circle, goal))
    far = goal.norm(dim=-1, keepdim=True)
    step = PACE * aim / aim.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    step = torch.where(clear[:, None] & (far < 0.1), goal, step)
    if explore is not None:
        step = step + NOISE * standard_noise(step.shape, explore, step)
    outside = away > 0.6  # noise never pushes a careful walker in
    safe = torch.where(outside[:, None], step, step + 0.5 * outward)
    return safe.clamp(-1.0, 1.0), carry


SCRIPTED: dict[str, Act] = {"rl/Hole-v0": around_the_hole}


def scripted_actor(env_id: str) -> Act:
    """The written-down behaviour of an env."""
    if env_id not in SCRIPTED:
        raise DataError(f"no scripted behaviour for {env_id}; there is one for {', '.join(SCRIPTED)}")
    return SCRIPTED[env_id]
