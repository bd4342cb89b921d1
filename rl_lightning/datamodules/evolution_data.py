"""What evolution learns from: the fitness of a population, judged once per generation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from rl_lightning import distributed
from rl_lightning.clock.run_clock import RunClock
from rl_lightning.datamodules.bases.eval_env_data import EvalEnvData
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.evolution.fitness import Fitness, Population
from rl_lightning.seeding import derive

EXAMINED = 64  # rollouts of a finished controller


class FitnessFn(Protocol):
    """Fitness [P, R] of members; the name says which luck they have, `rollouts` null: as many as are usual."""

    def __call__(self, players: Population, name: str, rollouts: int | None = None) -> Tensor: ...


class EvolutionBatch(NamedTuple):
    """The batch of one generation."""

    evaluate: FitnessFn


class EvolutionData(EvalEnvData):
    """One block is one generation. Nothing is drawn but by the generation's number: one that was cut short is repeated
    from its start with the same bits.

    Args:
        env: The game, for evaluation, and for fitness where it is played.
        fitness: How members are judged.
    """

    yields = EvolutionBatch
    clock_name = "update"

    def __init__(self, env: EnvLike, fitness: Fitness) -> None:
        super().__init__(env)
        self.fitness = fitness

    def open(self, stage: str) -> None:
        if stage == "fit":
            self.fitness.open(self.env)

    def sample_batches(self, updates: int) -> Iterator[EvolutionBatch]:
        for _ in range(self.cut_updates(self.clock, updates)):
            yield EvolutionBatch(self.evaluate_population)

    def cut_updates(self, clock: RunClock, updates: int) -> int:
        return min(updates, 1)

    def evaluate_population(self, players: Population, name: str, rollouts: int | None = None) -> Tensor:
        """Members are shared out among the ranks; luck hangs on seed and name alone, so all ranks agree."""
        seed = derive(self.seed, name)
        own = players._replace(params=players.params[self.rank :: self.world_size])
        fitness, steps = self.fitness.evaluate(own, seed, rollouts or self.fitness.rollouts)
        parts: list[Any] = distributed.gather_objects((fitness.cpu(), steps))
        whole = torch.zeros(len(players.params), parts[0][0].shape[1])
        for rank, (part, played) in enumerate(parts):
            whole[rank :: self.world_size] = part
            self.clock.env_step += played
        return whole

    def diagnostics(self, module: Any) -> dict[str, Any]:
        """What the fitness says of the finished controller, to be read beside the real episodes: the gap of a dream."""
        self.fitness.open(self.env)
        fitness = self.evaluate_population(module.population(module.best[None]), "examine", EXAMINED)
        return {"fitness": {"mean": float(fitness.mean()), "std": float(fitness.std()), "rollouts": EXAMINED}}

    def teardown(self, stage: str) -> None:
        super().teardown(stage)
        self.fitness.close()
