"""Evolution by asking and telling: CMA-ES (Hansen), whose state is its history and is replayed on a resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.extras import pip_command


class CMAES:
    """CMA-ES over `size` numbers. The `cma` package minimises; here higher fitness is better.

    The package's own state is a web of objects that only pickle could save. It is a function of the seed and of the
    fitness of every generation, so these are what is saved, and `load_state_dict` plays them through again: the same
    bits, at the cost of the searching alone, without any evaluation.

    Args:
        popsize: Members of a generation (paper: 64).
        sigma_init: Width of the first generation.
        mean_init: Where the search begins: every number of the first mean.
    """

    def __init__(
        self, size: int, /, popsize: int = 64, sigma_init: float = 0.1, mean_init: float = 0.0
    ) -> None:
        if popsize < 4 or sigma_init <= 0.0:
            raise ConfigError(
                f"CMAES needs a population of 4 or more and sigma above 0, not {popsize} and {sigma_init}"
            )
        self.size, self.popsize, self.sigma_init, self.mean_init = size, popsize, sigma_init, mean_init
        self.seed: int | None = None

    @property
    def has_begun(self) -> bool:
        return self.seed is not None

    def begin(self, seed: int) -> None:
        """The first generation; all that is drawn follows from the seed."""
        self.seed = seed
        try:
            import cma
        except ImportError:
            raise ConfigError(
                f"evolving a controller needs the cma package: {pip_command('evolve')}"
            ) from None
        draw = np.random.default_rng(seed)
        options = {
            "popsize": self.popsize,
            "randn": lambda *shape: draw.standard_normal(shape),
            "seed": float("nan"),  # the global generator is not touched
            "verbose": -9,
            "verb_log": 0,
        }
        start = np.full(self.size, self.mean_init)
        self.search: Any = cma.CMAEvolutionStrategy(start, self.sigma_init, options)
        self.history: list[np.ndarray] = []  # fitness of every generation so far
        self.asked: list[Any] | None = None

    @property
    def generation(self) -> int:
        return len(self.history)

    @property
    def mean(self) -> Tensor:
        """The centre of the search, the package's own favourite where fitness is noisy."""
        return torch.from_numpy(np.array(self.search.mean)).float()

    @property
    def sigma(self) -> float:
        return float(self.search.sigma)

    def ask(self) -> Tensor:
        """The members of this generation, the same ones until they have their fitness.  -> [P, size]"""
        if self.asked is None:
            self.asked = self.search.ask()
        return torch.from_numpy(np.stack(self.asked)).float()

    def tell(self, fitness: Tensor) -> None:
        """The fitness of each member, higher is better; one that is not a number is the worst of all."""
        if self.asked is None:
            self.ask()
        assert fitness.shape == (self.popsize,), fitness.shape
        finite_fitness = np.nan_to_num(fitness.double().numpy(), nan=-1e30, neginf=-1e30, posinf=1e30)
        self.search.tell(self.asked, (-finite_fitness).tolist())
        self.history.append(finite_fitness)
        self.asked = None

    def state_dict(self) -> dict[str, Any]:
        width = (0, self.popsize)
        history = np.stack(self.history) if self.history else np.zeros(width)
        return {"seed": self.seed, "history": torch.from_numpy(history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.begin(int(state["seed"]))
        for fitness in state["history"]:
            self.ask()
            self.tell(fitness)


# Makes a search over so many numbers.
SearchFactory = Callable[[int], CMAES]
