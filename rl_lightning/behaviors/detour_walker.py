"""A walker around an obstacle who makes up its mind at the start: above or below, one as often as the other."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.envs.toys.detour import Detour, middle_of
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.types import Carry

WIDE = 0.75  # how far from the obstacle's middle it keeps
PACE, NOISE = 0.8, 0.05  # of the longest step


def detour_walker(
    obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
) -> tuple[Tensor, Carry]:
    """Circles the obstacle of rl/Detour to the goal; carry: the side, 1 or -1, drawn when it is 0."""
    place = obs if obs.dim() == 2 else torch.from_numpy(middle_of(obs.numpy()))
    draw = generator if generator is not None else torch.Generator().manual_seed(0)
    coin = (torch.rand(len(place), 1, generator=draw) < 0.5).float() * 2.0 - 1.0
    side = torch.where(carry[0] == 0.0, coin, carry[0])
    away = place.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    outward = place / away
    along = side * torch.cat((outward[:, 1:], -outward[:, :1]), -1)  # clockwise above, the other way below
    circle = along + 4.0 * (WIDE - away) * outward
    goal = torch.tensor(Detour.GOAL) - place
    aim = torch.where((place[:, :1] > 0.45) & (side * place[:, 1:] < 0.75), goal, circle)
    step = PACE * aim / aim.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    if generator is not None:
        step = step + NOISE * standard_noise(step.shape, generator, step)
    return step.clamp(-1.0, 1.0), (side,)
