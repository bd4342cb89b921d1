"""Planning by sampling: the cross-entropy method and MPPI, for N envs at once, over whatever scores a plan.

A planner knows no model. Its caller scores whole sequences of actions (a learned latent model, an ensemble, the true
dynamics), and the planner searches [-1, 1] for the best. Envs never influence each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.ranges import NonNegativeFloat, PositiveInt

Score = Callable[
    [Tensor], Tensor
]  # actions [N, K, H, A] -> how good each sequence is [N, K], higher is better

FIXED_SEED = 0  # of a plan that nobody explores with: the same question then has the same answer


class Plan(NamedTuple):
    """What was decided for N envs."""

    action: Tensor  # [N, A] to be taken now
    mean: Tensor  # [N, H, A] of the last search distribution; `shifted(mean)` starts the next step's search
    std: Tensor  # [N, H, A]
    score: Tensor  # [N] of the best sequence that was looked at


class PlannerNoise(NamedTuple):
    """All random numbers of one plan. Row n is env n's alone."""

    noise: Tensor  # [N, I, K, H, A] standard normal, of each iteration's candidates
    pick: Tensor  # [N, E] exponential clocks that choose among the elites
    jitter: Tensor  # [N, A] standard normal, added to an explored action


def shifted(mean: Tensor) -> Tensor:
    """A plan one step later: its first action is gone, its last is open.  All zeros stay all zeros: a new episode.

    [N, H, A] -> [N, H, A]
    """
    return torch.cat([mean[:, 1:], torch.zeros_like(mean[:, :1])], 1)


class Planner(ABC):
    """A planner: how a Gaussian is refitted to the elites, and which action is taken of it."""

    horizon: int
    num_samples: int  # sequences looked at per iteration, proposals included
    num_elites: int
    iterations: int
    start_std: float  # width of the first Gaussian
    min_std: float
    num_pi_trajs = 0  # sequences that the caller should propose, if it has a policy

    def search(
        self,
        score: Score,
        mean: Tensor,
        draws: PlannerNoise,
        explore: bool,
        proposals: Tensor | None = None,
        std: Tensor | None = None,
        min_std: float | None = None,
    ) -> Plan:
        """The search itself, a plain function of its random numbers."""
        floor = self.min_std if min_std is None else min_std
        std = torch.full_like(mean, self.start_std) if std is None else std
        best = mean.new_full(mean.shape[:1], -torch.inf)
        for noise in draws.noise.unbind(1):
            actions = candidates(mean, std, noise, proposals)
            chosen, value = elite(actions, score(actions), self.num_elites)
            best = torch.maximum(best, value[:, 0])
            mean, std = self.refit(chosen, value, mean, std, floor)
        action = self.decide(chosen, value, mean, draws.pick)
        if explore:
            action = action + self.jitter_std(std) * draws.jitter
        return Plan(action.clamp(-1.0, 1.0), mean, std, best)

    @abstractmethod
    def refit(
        self, chosen: Tensor, value: Tensor, mean: Tensor, std: Tensor, floor: float
    ) -> tuple[Tensor, Tensor]:
        """Mean and width [N, H, A] of the next Gaussian, from the elites [N, E, H, A] and their scores [N, E]."""

    @abstractmethod
    def decide(self, chosen: Tensor, value: Tensor, mean: Tensor, pick: Tensor) -> Tensor:
        """The action [N, A] to take, of the last elites or the last mean."""

    @abstractmethod
    def jitter_std(self, std: Tensor) -> Tensor | float:
        """Width of the noise on an explored action, given that of the last Gaussian [N, H, A]."""

    def draw(self, mean: Tensor, generator: torch.Generator, proposed: int = 0) -> PlannerNoise:
        """The random numbers of a plan for N envs around `mean` [N, H, A]."""
        envs, horizon, width = mean.shape
        shape = (envs, self.iterations, self.num_samples - proposed, horizon, width)
        noise = standard_noise(shape, generator, mean)
        clocks = torch.empty(envs, self.num_elites, device=generator.device).exponential_(generator=generator)
        jitter = standard_noise((envs, width), generator, mean)
        return PlannerNoise(noise, clocks.to(mean), jitter)

    @torch.no_grad()
    def plan(
        self,
        score: Score,
        mean: Tensor,
        generator: torch.Generator | None,
        proposals: Tensor | None = None,
        std: Tensor | None = None,
        min_std: float | None = None,
    ) -> Plan:
        """Searches for N envs at once.

        `mean` [N, H, A] is where the search starts (zeros, or `shifted` of the last plan; its H rules), `std` how wide
        (by default the planner's own), `proposals` [N, P, H, A] are sequences looked at in every iteration. With a
        generator the action explores as the method does it; None searches with fixed random numbers and adds none.
        """
        proposed = 0 if proposals is None else proposals.shape[1]
        if proposed >= self.num_samples:
            raise ConfigError(
                f"{proposed} proposed plans leave none of {self.num_samples} candidates to be drawn; propose fewer"
            )
        source = generator if generator is not None else torch.Generator().manual_seed(FIXED_SEED)
        draws = self.draw(mean, source, proposed)
        return self.search(score, mean, draws, generator is not None, proposals, std, min_std)

    def _check(self, **counts: int) -> None:
        for name, value in counts.items():
            if value < 1:
                raise ConfigError(f"{type(self).__name__}.{name} is {value}; it must be at least 1")
        if self.num_elites > self.num_samples:
            raise ConfigError(
                f"{type(self).__name__}.elites is {self.num_elites}; there are only {self.num_samples} candidates"
            )


class CEM(Planner):
    """Cross-entropy method (as PlaNet plans): refit a Gaussian to the best candidates, take its mean.

    Args:
        horizon: Steps of a plan.
        num_samples: Sequences drawn per iteration.
        num_elites: How many of the best the Gaussian is refitted to.
        iterations: Times that it is refitted.
        initial_std: Width of the first Gaussian.
        min_std: The Gaussian never becomes narrower, so that the search does not stop early.
        momentum: Fraction of the last mean and width that stays at a refit.
        exploration_noise: Standard deviation of the noise added to an explored action.
    """

    def __init__(
        self,
        horizon: PositiveInt = 12,
        num_samples: PositiveInt = 1000,
        num_elites: PositiveInt = 100,
        iterations: int = 10,
        initial_std: float = 1.0,
        min_std: float = 0.0,
        momentum: float = 0.0,
        exploration_noise: NonNegativeFloat = 0.0,
    ) -> None:
        self.horizon, self.num_samples, self.num_elites, self.iterations = (
            horizon,
            num_samples,
            num_elites,
            iterations,
        )
        self.initial_std = self.start_std = initial_std
        self.min_std, self.momentum, self.exploration_noise = min_std, momentum, exploration_noise
        self._check(horizon=horizon, candidates=num_samples, elites=num_elites, iterations=iterations)

    def refit(
        self, chosen: Tensor, value: Tensor, mean: Tensor, std: Tensor, floor: float
    ) -> tuple[Tensor, Tensor]:
        width = torch.lerp(chosen.std(1, correction=0), std, self.momentum).clamp(min=floor)
        return torch.lerp(chosen.mean(1), mean, self.momentum), width

    def decide(self, chosen: Tensor, value: Tensor, mean: Tensor, pick: Tensor) -> Tensor:
        return mean[:, 0]

    def jitter_std(self, std: Tensor) -> float:
        return self.exploration_noise


class MPPI(Planner):
    """Model predictive path integral control (as TD-MPC plans): elites count by how good they are, one is taken.

    Args:
        horizon: Steps of a plan.
        num_samples: Sequences looked at per iteration, those proposed by a policy included.
        num_elites: How many of the best the Gaussian is refitted to.
        iterations: Times that it is refitted.
        temperature: How strongly a better elite outweighs a worse one; 0 weighs all alike.
        min_std: The Gaussian never becomes narrower.
        max_std: Width of the first Gaussian, and never wider.
        num_pi_trajs: Sequences that a policy proposes.
        momentum: Fraction of the last mean that stays at a refit (TD-MPC 0.1, TD-MPC2 none).
    """

    def __init__(
        self,
        horizon: PositiveInt = 3,
        num_samples: PositiveInt = 512,
        num_elites: PositiveInt = 64,
        iterations: int = 6,
        temperature: float = 0.5,
        min_std: float = 0.05,
        max_std: float = 2.0,
        num_pi_trajs: int = 24,
        momentum: float = 0.0,
    ) -> None:
        self.horizon, self.num_samples, self.num_elites, self.iterations = (
            horizon,
            num_samples,
            num_elites,
            iterations,
        )
        self.num_samples = num_samples
        self.temperature, self.min_std = temperature, min_std
        self.max_std = self.start_std = max_std
        self.num_pi_trajs, self.momentum = num_pi_trajs, momentum
        self._check(horizon=horizon, samples=num_samples, elites=num_elites, iterations=iterations)
        if not 0 <= num_pi_trajs < num_samples:
            raise ConfigError(
                f"MPPI.num_pi_trajs is {num_pi_trajs}; it must be at least 0 and below num_samples ({num_samples})"
            )
        if not 0.0 < min_std <= max_std:
            raise ConfigError(f"MPPI needs 0 < min_std <= max_std, not {min_std} and {max_std}")

    def _weight(self, value: Tensor) -> Tensor:
        """How much each elite counts [N, E]."""
        return torch.softmax(self.temperature * (value - value[:, :1]), 1)

    def refit(
        self, chosen: Tensor, value: Tensor, mean: Tensor, std: Tensor, floor: float
    ) -> tuple[Tensor, Tensor]:
        share = self._weight(value)[:, :, None, None]
        fitted = (share * chosen).sum(1)
        width = (share * (chosen - fitted[:, None]).square()).sum(1).sqrt().clamp(floor, self.max_std)
        return torch.lerp(fitted, mean, self.momentum), width

    def decide(self, chosen: Tensor, value: Tensor, mean: Tensor, pick: Tensor) -> Tensor:
        # An exponential clock per elite, ringing at a rate of its weight: the first to ring is a draw by weight.
        winner = (self._weight(value) / pick).argmax(1)
        return chosen[torch.arange(len(winner), device=winner.device), winner, 0]

    def jitter_std(self, std: Tensor) -> Tensor:
        return std[:, 0]


def candidates(mean: Tensor, std: Tensor, noise: Tensor, proposals: Tensor | None) -> Tensor:
    """Sequences around a Gaussian, inside the bounds, and after them what was proposed.  -> [N, K, H, A]"""
    samples = torch.addcmul(mean[:, None], std[:, None], noise).clamp_(-1.0, 1.0)
    return samples if proposals is None else torch.cat([samples, proposals], 1)


def elite(actions: Tensor, score: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best sequences of each env, best first, and their scores. A score that is not a number is the worst.

    [N, K, H, A], [N, K] -> [N, E, H, A], [N, E]
    """
    assert score.shape == actions.shape[:2], (score.shape, actions.shape)
    lowest = torch.finfo(score.dtype).min
    value, index = torch.nan_to_num(score, nan=lowest).topk(count, 1)
    return actions[torch.arange(len(index), device=index.device)[:, None], index], value
