"""Wanderers for data that must be put together: walks from cell to cell of a maze, rarely straight to the goal."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.types import Carry

# Middles of the U's cells, from the start to the goal.
CORRIDOR = ((-1.0, 1.0), (0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (1.0, -1.0), (0.0, -1.0), (-1.0, -1.0))
GOAL_SHARE = 0.3  # of errands that lead to the goal
PULL, DRAG, NOISE = 3.0, 1.0, 0.5
NEAR = 0.3  # an errand is done within this distance


def u_maze_walker(
    obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
) -> tuple[Tensor, Carry]:
    """Steers a ball to a cell of the U, and then to another; carry: the number of the cell, from 1."""
    cells = torch.tensor(CORRIDOR)
    draw = generator if generator is not None else torch.Generator().manual_seed(0)
    place, speed = obs[:, :2], obs[:, 2:4]
    here = torch.cdist(place, cells).argmin(-1)
    wanted = carry[0][:, 0].round().long() - 1
    done = (wanted < 0) | ((place - cells[wanted.clamp(min=0)]).norm(dim=-1) < NEAR)
    last = len(CORRIDOR) - 1
    anywhere = torch.randint(last + 1, (len(obs),), generator=draw)
    to_goal = torch.rand(len(obs), generator=draw) < GOAL_SHARE
    wanted = torch.where(done, torch.where(to_goal, last, anywhere), wanted)
    ahead = here + (wanted - here).sign()
    aim = PULL * (cells[ahead] - place) - DRAG * speed
    if generator is not None:
        aim = aim.clamp(-1.0, 1.0) + NOISE * standard_noise(aim.shape, generator, aim)
    return aim.clamp(-1.0, 1.0), ((wanted + 1).float().unsqueeze(1),)


def one_number(count: int) -> Carry:
    """The carry at the start of an episode."""
    return (torch.zeros(count, 1),)
