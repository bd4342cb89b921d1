"""How fit a member of a population is: by dreaming, or by playing the real game."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.datasets.in_memory import DatasetLike
from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.errors import ConfigError
from rl_lightning.evolution.dream_rollout import dream_rollout
from rl_lightning.evolution.env_rollout import evaluate_in_env
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.rollout.episode_splitter import load_recording
from rl_lightning.seeding import derive


class Population(NamedTuple):
    """Who is to be judged."""

    params: Tensor  # [P, size]
    world: VisionMemoryModel
    controller: Controller
    use_cell: bool


class Fitness(ABC):
    """A judge; all that it draws follows from the seed it is given."""

    rollouts: int  # per member and generation

    @abstractmethod
    def open(self, env: EnvConfig) -> None:
        """Loads or starts what it needs."""

    @abstractmethod
    def evaluate(self, players: Population, seed: int, rollouts: int) -> tuple[Tensor, int]:
        """Fitness [P, R], rollout r having the same luck for every member, and the env steps that it took."""

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Ends what was started."""


class DreamFitness(Fitness):
    """Rewards in dreams that begin where recorded episodes began.

    Args:
        recording: Artifact of the stage that recorded the episodes; null: the data set's.
        num_rollouts: Dreams per member.
        max_steps: Longest dream.
        temperature: Above 1 the dream is less certain than the memory thinks, and harder to exploit (paper: 1.15).
        termination_threshold: A dream is over when its end is likelier than this; null draws it with its likelihood.
        dataset: Recorded episodes (a folder of films, a data set) in place of a stage's; null: none.
    """

    def __init__(
        self,
        recording: Artifact | None = None,
        num_rollouts: int = 16,
        max_steps: int = 300,
        temperature: float = 1.0,
        termination_threshold: float | None = 0.5,
        dataset: DatasetLike | None = None,
    ) -> None:
        if min(num_rollouts, max_steps) < 1 or temperature <= 0.0:
            raise ConfigError("fitness.rollouts and fitness.steps must be at least 1, temperature above 0")
        if termination_threshold is not None and not 0.0 < termination_threshold < 1.0:
            raise ConfigError(
                f"fitness.threshold is {termination_threshold}; it is a probability, or null to draw the end"
            )
        self.recording, self.dataset = recording, dataset
        self.rollouts, self.max_steps = num_rollouts, max_steps
        self.temperature, self.termination_threshold = temperature, termination_threshold
        self.first: Tensor | None = None  # frames that episodes began with

    def open(self, env: EnvConfig) -> None:
        if self.first is None:
            rows = load_recording(self.recording, self.dataset, env, probe_spec(env))
            self.first = rows.obs[rows.is_first].clone()

    def evaluate(self, players: Population, seed: int, rollouts: int) -> tuple[Tensor, int]:
        assert self.first is not None, "open() comes first"
        generator = torch.Generator().manual_seed(seed)
        chosen = self.first[torch.randint(len(self.first), (rollouts,), generator=generator)]
        latent = players.world.vision(chosen.to(players.params.device))
        noise = torch.randn(latent.mean.shape, generator=generator).to(latent.mean)
        rollout = dream_rollout(
            players.world, players.controller, players.params, latent.sample(noise), self.max_steps, self.temperature,
            generator, players.use_cell, self.termination_threshold,
        )  # fmt: skip
        return rollout.fitness, 0


class RealFitness(Fitness):
    """Rewards in the game itself.

    Args:
        num_rollouts: Episodes per member.
        num_workers: Worker processes, an env each; 1: one env in this process.
        max_steps: An episode is cut after so many steps of the agent; null: as the env says.
    """

    def __init__(self, num_rollouts: int = 16, num_workers: int = 1, max_steps: int | None = None) -> None:
        if min(num_rollouts, num_workers) < 1 or (max_steps is not None and max_steps < 1):
            raise ConfigError("fitness.rollouts, fitness.workers and fitness.max_steps must be at least 1")
        self.rollouts, self.num_workers, self.max_steps = num_rollouts, num_workers, max_steps
        self.envs: Any = None

    def open(self, env: EnvConfig) -> None:
        if self.envs is None:
            self.envs = make_envs(env, self.num_workers, "async" if self.num_workers > 1 else "sync")

    def evaluate(self, players: Population, seed: int, rollouts: int) -> tuple[Tensor, int]:
        seeds = [derive(seed, f"episode/{r}") for r in range(rollouts)]
        returns, played = evaluate_in_env(
            self.envs, players.world, players.controller, players.params, seeds, players.use_cell, self.max_steps
        )  # fmt: skip
        return returns, played * self.envs.env_spec.action_repeat

    def close(self) -> None:
        if self.envs is not None:
            self.envs.close()
            self.envs = None
