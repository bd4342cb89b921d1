"""How fit a member of a population is: by dreaming, or by playing the real game."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.artifacts import load_provided
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.errors import ConfigError
from rl_lightning.evolution.dream_rollout import dream
from rl_lightning.evolution.env_rollout import play_members
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import DreamWorld
from rl_lightning.seeding import derive


class Players(NamedTuple):
    """Who is to be judged."""

    numbers: Tensor  # [P, size]
    world: DreamWorld
    controller: Controller
    use_cell: bool


class Fitness(ABC):
    """Recipe of a judge; all that it draws follows from the seed it is given."""

    rollouts: int  # per member and generation

    @abstractmethod
    def open(self, env: EnvConfig) -> None:
        """Loads or starts what it needs."""

    @abstractmethod
    def judge(self, players: Players, seed: int, rollouts: int) -> tuple[Tensor, int]:
        """Fitness [P, R], rollout r having the same luck for every member, and the env steps that it took."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Ends what was started."""


class DreamFitness(Fitness):
    """Rewards in dreams that begin where recorded episodes began.

    Args:
        recording: Product of the stage that recorded the episodes.
        rollouts: Dreams per member.
        steps: Longest dream.
        temperature: Above 1 the dream is less certain than the memory thinks, and harder to exploit (paper: 1.15).
        threshold: A dream is over when its end is likelier than this; null draws it with its likelihood.
    """

    def __init__(
        self,
        recording: str,
        rollouts: int = 16,
        steps: int = 300,
        temperature: float = 1.0,
        threshold: float | None = 0.5,
    ) -> None:
        if min(rollouts, steps) < 1 or temperature <= 0.0:
            raise ConfigError("fitness.rollouts and fitness.steps must be at least 1, temperature above 0")
        if threshold is not None and not 0.0 < threshold < 1.0:
            raise ConfigError(
                f"fitness.threshold is {threshold}; it is a probability, or null to draw the end"
            )
        self.recording, self.rollouts, self.steps = recording, rollouts, steps
        self.temperature, self.threshold = temperature, threshold
        self.first: Tensor | None = None  # frames that episodes began with

    def open(self, env: EnvConfig) -> None:
        if self.first is None:
            rows: Any = load_provided(self.recording, "recording")
            self.first = rows.obs[rows.is_first].clone()

    def judge(self, players: Players, seed: int, rollouts: int) -> tuple[Tensor, int]:
        assert self.first is not None, "open() comes first"
        generator = torch.Generator().manual_seed(seed)
        chosen = self.first[torch.randint(len(self.first), (rollouts,), generator=generator)]
        seen = players.world.vision(chosen.to(players.numbers.device))
        noise = torch.randn(seen.mean.shape, generator=generator).to(seen.mean)
        found = dream(
            players.world, players.controller, players.numbers, seen.sample(noise), self.steps, self.temperature,
            generator, players.use_cell, self.threshold,
        )  # fmt: skip
        return found.fitness, 0


class RealFitness(Fitness):
    """Rewards in the game itself.

    Args:
        rollouts: Episodes per member.
        workers: Worker processes, an env each; 1: one env in this process.
        max_steps: An episode is cut after so many steps of the agent; null: as the env says.
    """

    def __init__(self, rollouts: int = 16, workers: int = 1, max_steps: int | None = None) -> None:
        if min(rollouts, workers) < 1 or (max_steps is not None and max_steps < 1):
            raise ConfigError("fitness.rollouts, fitness.workers and fitness.max_steps must be at least 1")
        self.rollouts, self.workers, self.max_steps = rollouts, workers, max_steps
        self.envs: Any = None

    def open(self, env: EnvConfig) -> None:
        if self.envs is None:
            self.envs = make_envs(env, self.workers, "async" if self.workers > 1 else "sync")

    def judge(self, players: Players, seed: int, rollouts: int) -> tuple[Tensor, int]:
        seeds = [derive(seed, f"episode/{r}") for r in range(rollouts)]
        returns, played = play_members(
            self.envs, players.world, players.controller, players.numbers, seeds, players.use_cell, self.max_steps
        )  # fmt: skip
        return returns, played * self.envs.env_spec.action_repeat

    def close(self) -> None:
        if self.envs is not None:
            self.envs.close()
            self.envs = None
