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

    @abstractmethod
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


class GAE(ReturnComputer):
    """Generalised advantage estimation.

    Args:
        lam: Decay of later errors; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, lam: float = 0.95) -> None:
        self.lam = _check_lam(lam)

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        return returns.gae(reward, value, next_value, terminated, done, gamma, self.lam)


class LambdaReturn(ReturnComputer):
    """Lambda returns as targets; the advantage is the target minus the value.

    Args:
        lam: Weight of longer returns; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, lam: float = 0.95) -> None:
        self.lam = _check_lam(lam)

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        target = returns.lambda_return(reward, next_value, terminated, done, gamma, self.lam)
        return target - value, target


class NStep(ReturnComputer):
    """Returns of at most n rewards, then the value.

    Args:
        n: Number of rewards before the bootstrap.
    """

    def __init__(self, n: int = 5) -> None:
        if n < 1:
            raise ConfigError(f"n must be at least 1, not {n}.")
        self.n = n

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        target = returns.n_step(reward, next_value, terminated, done, gamma, self.n)
        return target - value, target


class Discounted(ReturnComputer):
    """Whole discounted returns, to the end of the episode or of the rollout."""

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        done: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        target = returns.discounted(reward, next_value, terminated, done, gamma)
        return target - value, target
