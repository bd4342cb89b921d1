"""The controller of World Models: a handful of numbers, found by evolution in dreams or in the game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.evolution.cmaes import CMAES, SearchFactory
from rl_lightning.evolution.env_rollout import population_step
from rl_lightning.evolution.fitness import Population
from rl_lightning.factories import make
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.world_models.controller import Controller
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel
from rl_lightning.ranges import PositiveInt
from rl_lightning.rollout.video_overlay import DreamOverlay
from rl_lightning.seeding import derive
from rl_lightning.types import Carry, EnvSpec


class EvolutionaryController(PolicyModule):
    """One update is one generation: ask for members, have them judged, tell their fitness.

    Args:
        spec: What the env is like; filled in from the data.
        world_from: Artifact of the MDN-RNN stage.
        latent_dim: Size of a code, as in that stage.
        depth: Depth of the auto-encoder, as in that stage.
        hidden_dim: Size of the LSTM, as in that stage.
        num_mixtures: Gaussians, as in that stage.
        joint_mixture: One mixture over the whole code, as in that stage.
        predict_reward: As in that stage.
        predict_termination: As in that stage.
        use_cell: The controller also sees the LSTM's cell ([z, h, c], Doom); off: [z, h] (CarRacing).
        controller_hidden_dim: Units of the controller's hidden layer; 0: linear.
        strategy: The search.
        reevaluate_every: Generations between two careful looks at who is best.
        reevaluate_rollouts: Rollouts of such a look, for each candidate (paper: 1024).
    """

    best: Tensor
    best_fitness: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        world_from: Artifact,
        latent_dim: PositiveInt = 32,
        depth: PositiveInt = 32,
        hidden_dim: int = 256,
        num_mixtures: PositiveInt = 5,
        joint_mixture: bool = False,
        predict_reward: bool = True,
        predict_termination: bool = True,
        use_cell: bool = False,
        controller_hidden_dim: int = 0,
        strategy: SearchFactory = CMAES,
        reevaluate_every: PositiveInt = 25,
        reevaluate_rollouts: PositiveInt = 1024,
    ) -> None:
        super().__init__(spec)
        if spec.action_mask:
            raise ConfigError(f"EvolutionaryController knows no illegal actions; {spec.env_id} has some")
        self.source, self.use_cell = world_from, use_cell
        heads = {"predict_reward": predict_reward, "predict_termination": predict_termination}
        self.world = VisionMemoryModel.for_env(
            "EvolutionaryController",
            spec,
            latent_dim,
            depth,
            hidden_dim,
            num_mixtures,
            joint_mixture=joint_mixture,
            **heads,
        )
        self.world.requires_grad_(False)
        self.map = Controller(self.world.feature_width(use_cell), spec, controller_hidden_dim)
        self.evolution = make(strategy, CMAES, "strategy", self.map.size)
        self.reevaluate_every, self.reevaluate_rollouts = reevaluate_every, reevaluate_rollouts
        self.register_buffer("best", torch.full((self.map.size,), self.evolution.mean_init))
        self.register_buffer("best_fitness", torch.full((), -torch.inf))  # of the last careful look

    def setup(self, stage: str) -> None:
        if stage != "fit" or self.evolution.has_begun:
            return
        saved: Any = load_exported(self.source, "world")
        own = self.world.exported("").init_args
        if saved.exported("").init_args != own:
            raise ConfigError(
                f"{self.source}: a world of {saved.exported('').init_args}; this stage has {own}. Set its sizes to fit"
            )
        self.world.load_state_dict(saved.state_dict())
        self.evolution.begin(derive(self.data_source.seed, "evolve"))

    def initial_carry(self, count: int) -> Carry:
        return self.world.memory.initial_carry(count)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        numbers = self.best.expand(obs.shape[0], -1)  # `len` would be a constant to an exporter
        return population_step(self.world, self.map, numbers, obs, carry, self.use_cell)

    def population(self, numbers: Tensor) -> Population:
        return Population(numbers.to(self.device), self.world, self.map, self.use_cell)

    def update(self, batch: Any) -> Metrics:
        search = self.evolution
        generation, members = search.generation, search.ask()
        fitness = batch.evaluate(self.population(members), f"generation/{generation}").mean(1)  # [P]
        search.tell(fitness)
        metrics = {
            "train/fitness_mean": fitness.mean(),
            "train/fitness_best": fitness.max(),
            "train/fitness_std": fitness.std(),
            "train/sigma": torch.tensor(search.sigma),
            "train/generation": torch.tensor(float(search.generation)),
        }
        if search.generation % self.reevaluate_every == 0:
            metrics |= self._reevaluate(batch, members[fitness.argmax()], generation)
        elif torch.isinf(self.best_fitness):
            self.best.copy_(search.mean)  # until somebody has been looked at
        return metrics

    def _reevaluate(self, batch: Any, winner: Tensor, generation: int) -> Metrics:
        """The best so far, the centre of the search and this generation's winner, once more, with equal luck."""
        candidates = torch.stack([self.best.cpu(), self.evolution.mean, winner])
        fitness = batch.evaluate(
            self.population(candidates), f"reevaluate/{generation}", self.reevaluate_rollouts
        ).mean(1)
        self.best.copy_(candidates[fitness.argmax()])
        self.best_fitness.copy_(fitness.max())
        return {"controller/fitness_best": fitness.max(), "controller/fitness_of_mean": fitness[1]}

    def video_overlay(self) -> Callable[[Tensor], list[np.ndarray]]:
        """What the auto-encoder makes of each frame, and a dream that began with the first one, played on its own."""
        return DreamOverlay(self.population(self.best[None]), self.device)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        if self.evolution.has_begun:
            checkpoint["evolution"] = self.evolution.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if self.evolution.has_begun and "evolution" in checkpoint:
            self.evolution.load_state_dict(checkpoint["evolution"])

    def configure_optimizers(self) -> None:
        return None
