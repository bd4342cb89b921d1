"""Recipes that a YAML chooses from: how rewards and values become advantages and value targets."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.functional import returns


def _check_lam(lam: float) -> float:
    if not 0.0 <= lam <= 1.0:
        raise ConfigError(f"lam must lie between 0 and 1, not {lam}.")
    return lam


class ReturnComputer(ABC):
    """How advantages and value targets are made from a rollout."""

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        """All [T, N] -> (advantage, target), both [T, N]."""
        return self.compute(returns.RolloutSteps(reward, value, next_value, terminated, done, gamma))

    @abstractmethod
    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        """(advantage, target), both [T, N]."""


class GAE(ReturnComputer):
    """Generalised advantage estimation.

    Args:
        lam: Decay of later errors; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, lam: float = 0.95) -> None:
        self.lam = _check_lam(lam)

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        return returns.gae(steps, self.lam)


class LambdaReturn(ReturnComputer):
    """Lambda returns as targets; the advantage is the target minus the value.

    Args:
        lam: Weight of longer returns; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, lam: float = 0.95) -> None:
        self.lam = _check_lam(lam)

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.lambda_return(steps, self.lam)
        return target - steps.value, target


class NStep(ReturnComputer):
    """Returns of at most n rewards, then the value.

    Args:
        n: Number of rewards before the bootstrap.
    """

    def __init__(self, n: int = 5) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, not {n}.")
        self.n = n

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.n_step(steps, self.n)
        return target - steps.value, target


class Discounted(ReturnComputer):
    """Whole discounted returns, to the end of the episode or of the rollout."""

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.discounted(steps)
        return target - steps.value, target
