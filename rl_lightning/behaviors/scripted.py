"""Behaviour that is written down instead of learned: what the data of our own small tasks are recorded from."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from rl_lightning.behaviors.clinic_rule import clinician
from rl_lightning.behaviors.detour_walker import detour_walker
from rl_lightning.behaviors.maze_walker import one_number, u_maze_walker
from rl_lightning.envs.toys.modes import CENTRES, SPREAD
from rl_lightning.errors import DataError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.rollout.collect import ActFn
from rl_lightning.types import Carry

WIDE = 0.7  # how far from the hole's middle a careful walker keeps
PACE, NOISE = 0.5, 0.3  # of the longest step


def hole_walker(
    obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
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
    if generator is not None:
        step = step + NOISE * standard_noise(step.shape, generator, step)
    outside = away > 0.6  # noise never pushes a careful walker in
    safe = torch.where(outside[:, None], step, step + 0.5 * outward)
    return safe.clamp(-1.0, 1.0), carry


def random_mode_policy(
    obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
) -> tuple[Tensor, Carry]:
    """Takes something from one of the eight heaps of rl/EightModes, each as often as the others."""
    draw = generator if generator is not None else torch.Generator().manual_seed(0)
    heap = torch.from_numpy(CENTRES).float()[torch.randint(len(CENTRES), (len(obs),), generator=draw)]
    return heap + SPREAD * standard_noise(heap.shape, draw, heap), carry


SCRIPTED: dict[str, ActFn] = {
    "rl/Hole-v0": hole_walker,
    "rl/Clinic-v0": clinician,
    "rl/PointUMaze-v0": u_maze_walker,
    "rl/EightModes-v0": random_mode_policy,
    "rl/Detour-v0": detour_walker,
    "rl/DetourPixels-v0": detour_walker,
}
REMEMBERING = ("rl/PointUMaze-v0", "rl/Detour-v0", "rl/DetourPixels-v0")  # each one number, 0 at the start


def scripted_actor(env_id: str) -> ActFn:
    """The written-down behaviour of an env."""
    if env_id not in SCRIPTED:
        raise DataError(f"no scripted behaviour for {env_id}; there is one for {', '.join(SCRIPTED)}")
    return SCRIPTED[env_id]


def scripted_carry(env_id: str) -> Callable[[int], Carry]:
    """What the written-down behaviour of an env remembers, at the start of an episode."""
    return one_number if env_id in REMEMBERING else lambda count: ()
