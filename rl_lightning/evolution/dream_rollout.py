"""A population that plays in a dream: all members and all their rollouts as one tensor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rl_lightning import stop_request
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.types import Carry

SPARE = 0.75  # members whose rollouts are all over are left out once at most this share is left


class DreamResult(NamedTuple):
    """What P members got in R dreams each."""

    fitness: Tensor  # [P, R] rewards up to the end
    length: Tensor  # [P, R] steps


class DreamState(NamedTuple):
    """Where P x R dreams stand."""

    code: Tensor  # [P, R, Z]
    carry: Carry  # [P * R, H] each


def dream_step(
    world: VisionMemoryModel,
    controller: Controller,
    numbers: Tensor,
    state: DreamState,
    temperature: float,
    generator: torch.Generator,
    use_cell: bool,
    threshold: float | None,
) -> tuple[DreamState, Tensor, Tensor]:
    """One step of every dream, its reward [P, R] and whether it is over [P, R].

    Rollout r has the same random numbers for every member: who is compared has had the same luck.
    """
    members, dreams, _ = state.code.shape
    memory = world.memory
    flat = state.code.flatten(0, 1)
    action = controller(numbers, world.features(flat, state.carry, use_cell).unflatten(0, (members, dreams)))
    carry = memory.step(flat, action.flatten(0, 1), state.carry)
    guess = memory.predict(carry[0].unflatten(0, (members, dreams)))
    clocks = torch.empty(dreams, *memory.clock_shape(), device=generator.device)
    clocks = clocks.exponential_(generator=generator).clamp_min_(torch.finfo(torch.float32).tiny).to(flat)
    noise = standard_noise((dreams, memory.latent_dim), generator, flat)
    chance = torch.rand(dreams, generator=generator, device=generator.device).to(flat)
    code = memory.sample(
        guess, temperature, clocks, noise
    )  # [P, R, Z]: all members meet the same [R] numbers
    reward = flat.new_ones(members, dreams) if guess.reward is None else guess.reward
    ended = torch.zeros_like(reward, dtype=torch.bool)
    if guess.terminated is not None:
        ended = guess.terminated.sigmoid() > (chance if threshold is None else threshold)
    return DreamState(code, carry), reward, ended


@torch.no_grad()
def dream_rollout(
    world: VisionMemoryModel,
    controller: Controller,
    numbers: Tensor,
    starts: Tensor,
    steps: int,
    temperature: float,
    generator: torch.Generator,
    use_cell: bool = False,
    threshold: float | None = 0.5,
) -> DreamResult:
    """Each member [P, size] dreams from each start [R, Z], at most so many steps.

    A dream is over when its end is likelier than `threshold`, or drawn with that likelihood where it is None.
    """
    members, dreams = len(numbers), len(starts)
    fitness, length = starts.new_zeros(members, dreams), starts.new_zeros(members, dreams)
    rows = torch.arange(members, device=starts.device)  # members still at play
    alive = torch.ones(members, dreams, dtype=torch.bool, device=starts.device)
    code = starts.expand(members, *starts.shape)
    state = DreamState(code, world.memory.initial_carry(members * dreams))
    for _ in range(steps):
        stop_request.raise_if_stopped()
        state, reward, ended = dream_step(
            world, controller, numbers, state, temperature, generator, use_cell, threshold
        )
        fitness[rows] += torch.where(alive, reward, 0.0)
        length[rows] += alive
        alive &= ~ended
        left = alive.any(1)
        count = int(left.sum())
        if count == 0:
            break
        if count <= SPARE * len(rows):
            carry = tuple(c.unflatten(0, (len(rows), dreams))[left].flatten(0, 1) for c in state.carry)
            state = DreamState(state.code[left], carry)
            rows, alive, numbers = rows[left], alive[left], numbers[left]
    return DreamResult(fitness, length)
