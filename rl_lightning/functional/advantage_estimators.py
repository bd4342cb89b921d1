"""How rewards and values become advantages and value targets."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.functional import returns
from rl_lightning.ranges import Fraction, PositiveInt


def _check_lam(lam: float) -> float:
    if not 0.0 <= lam <= 1.0:
        raise ConfigError(f"lam must lie between 0 and 1, not {lam}.")
    return lam


class AdvantageEstimator(ABC):
    """How advantages and value targets are made from a rollout."""

    def __call__(
        self,
        reward: Tensor,
        value: Tensor,
        next_value: Tensor,
        terminated: Tensor,
        episode_end: Tensor,
        gamma: float,
    ) -> tuple[Tensor, Tensor]:
        """All [T, N] -> (advantage, target), both [T, N]."""
        return self.compute(returns.RolloutSteps(reward, value, next_value, terminated, episode_end, gamma))

    @abstractmethod
    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        """(advantage, target), both [T, N]."""


class GAE(AdvantageEstimator):
    """Generalised advantage estimation.

    Args:
        gae_lambda: Decay of later errors; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, gae_lambda: Fraction = 0.95) -> None:
        self.gae_lambda = _check_lam(gae_lambda)

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        return returns.gae(steps, self.gae_lambda)


class LambdaReturn(AdvantageEstimator):
    """Lambda returns as targets; the advantage is the target minus the value.

    Args:
        lam: Weight of longer returns; 0 is one-step, 1 is the whole return.
    """

    def __init__(self, lam: float = 0.95) -> None:
        self.lam = _check_lam(lam)

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.lambda_return(steps, self.lam)
        return target - steps.value, target


class NStepReturn(AdvantageEstimator):
    """Returns of at most n rewards, then the value.

    Args:
        n_step: Number of rewards before the bootstrap.
    """

    def __init__(self, n_step: PositiveInt = 5) -> None:
        if n_step < 1:
            raise ConfigError(f"n_step must be at least 1, not {n_step}.")
        self.n_step = n_step

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.n_step_return(steps, self.n_step)
        return target - steps.value, target


class DiscountedReturn(AdvantageEstimator):
    """Whole discounted returns, to the end of the episode or of the rollout."""

    def compute(self, steps: returns.RolloutSteps) -> tuple[Tensor, Tensor]:
        target = returns.discounted_return(steps)
        return target - steps.value, target
