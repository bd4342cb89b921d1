"""A population that plays the real game: as many members at once as there are envs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning import stop_request
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.rollout.collect import to_array
from rl_lightning.types import Carry


@torch.no_grad()
def population_step(
    world: VisionMemoryModel,
    controller: Controller,
    numbers: Tensor,
    obs: Tensor,
    carry: Carry,
    use_cell: bool,
) -> tuple[Tensor, Carry]:
    """Actions of N envs, each played by its own numbers [N, size]; who acts sees the memory from before this frame."""
    code = world.vision(obs).mean
    action = controller(numbers, world.features(code, carry, use_cell).unsqueeze(1))[:, 0]
    return controller.to_env_action(action), world.memory.step(code, action, carry)


@torch.no_grad()
def evaluate_in_env(
    envs: Any,
    world: VisionMemoryModel,
    controller: Controller,
    numbers: Tensor,
    seeds: list[int],
    use_cell: bool = False,
    most_steps: int | None = None,
) -> tuple[Tensor, int]:
    """Returns [P, R] of each member in the episodes of R seeds, the same for all, and the steps that were played.

    Games are handed out in rounds of as many as there are envs; a round lasts as long as its longest game.
    """
    games = [(p, r) for r in range(len(seeds)) for p in range(len(numbers))]
    returns, played, width = torch.zeros(len(numbers), len(seeds)), 0, envs.num_envs
    for start in range(0, len(games), width):
        chosen = games[start : start + width]
        padded = chosen + chosen[-1:] * (width - len(chosen))
        members = numbers[[p for p, _ in padded]]
        obs, _ = envs.reset(seed=[seeds[r] for _, r in padded])
        carry = world.memory.initial_carry(width)
        total, alive, steps = np.zeros(width), np.arange(width) < len(chosen), 0
        while alive.any() and (most_steps is None or steps < most_steps):
            stop_request.raise_if_stopped()
            frames = torch.from_numpy(obs.copy()).to(numbers.device)
            action, carry = population_step(world, controller, members, frames, carry, use_cell)
            obs, reward, terminated, truncated, _ = envs.step(to_array(action))
            total += np.where(alive, reward, 0.0)
            played += int(alive.sum())
            alive &= ~(terminated | truncated)
            steps += 1
        for (p, r), episode_return in zip(chosen, total, strict=False):
            returns[p, r] = float(episode_return)
    return returns, played
