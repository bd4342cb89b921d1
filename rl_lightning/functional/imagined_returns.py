"""What imagined rewards and values teach a critic and an actor."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.functional.advantage_estimators import (
    GAE,
    AdvantageEstimator,
    DiscountedReturn,
    LambdaReturn,
    NStepReturn,
)
from rl_lightning.functional.returns import arrival_lambda_return, arrival_n_step_return, state_lambda_return
from rl_lightning.ranges import PositiveInt


class Targets(NamedTuple):
    """What is learned from an imagined trajectory of states 0 ... H."""

    critic: Tensor  # [K, N], of states first ... first + K - 1
    first: int
    actor_target: Tensor  # [J, N], what the actions in states 0 ... J - 1 brought


class ImaginedReturns:
    """Base of what stands under `returns:`.

    Args:
        lam: Decay of later errors; 0 is one step, 1 the whole trajectory.
    """

    def __init__(self, lam: float = 0.95) -> None:
        if not 0.0 <= lam <= 1.0:
            raise ConfigError(f"returns.lam is {lam}; it must lie between 0 and 1")
        self.lam = lam

    def __call__(self, reward: Tensor, value: Tensor, live: Tensor) -> Targets:
        """All [H+1, N]; `reward` and `live` are those of arriving at a state and of going on from there."""
        raise TypeError(f"{type(self).__name__} must define __call__(reward, value, live)")


class ArrivalReturns(ImaginedReturns):
    """A state is worth what comes after it (Dreamer v3).

    Args:
        lam: Decay of later errors; 0 is one step, 1 the whole trajectory.
    """

    def __call__(self, reward: Tensor, value: Tensor, live: Tensor) -> Targets:
        returns = arrival_lambda_return(reward, value, live, self.lam)
        return Targets(returns, 0, returns)


class ImaginedNStepReturns(ImaginedReturns):
    """A state is worth the next rewards, and the value of where they end.

    Args:
        n_step: Number of rewards before the bootstrap.
    """

    def __init__(self, n_step: PositiveInt = 5) -> None:
        super().__init__(1.0)
        self.n_step = n_step

    def __call__(self, reward: Tensor, value: Tensor, live: Tensor) -> Targets:
        returns = arrival_n_step_return(reward, value, live, self.n_step)
        return Targets(returns, 0, returns)


def imagined(estimator: ImaginedReturns | AdvantageEstimator) -> ImaginedReturns:
    """The estimator that PPO takes, for imagined trajectories; GAE's value targets are lambda returns."""
    if isinstance(estimator, ImaginedReturns):
        return estimator
    if isinstance(estimator, GAE):
        return ArrivalReturns(estimator.gae_lambda)
    if isinstance(estimator, LambdaReturn):
        return ArrivalReturns(estimator.lam)
    if isinstance(estimator, DiscountedReturn):
        return ArrivalReturns(1.0)
    if isinstance(estimator, NStepReturn):
        return ImaginedNStepReturns(estimator.n_step)
    raise ConfigError(
        f"returns: {type(estimator).__name__} is not known for imagined trajectories; derive from ImaginedReturns"
    )


class StateReturns(ImaginedReturns):
    """A state is worth what arriving there gave and what comes after (Dreamer v1 and v2).

    Args:
        lam: Decay of later errors; 0 is one step, 1 the whole trajectory.
        from_start: The critic also learns about the states where imagination began (v2), not only imagined ones (v1).
    """

    def __init__(self, lam: float = 0.95, from_start: bool = True) -> None:
        super().__init__(lam)
        self.from_start = from_start

    def __call__(self, reward: Tensor, value: Tensor, live: Tensor) -> Targets:
        if len(reward) < 3:
            raise ConfigError("model.horizon must be at least 2 with StateReturns; use ArrivalReturns for 1")
        returns = state_lambda_return(reward, value, live, self.lam)
        first = 0 if self.from_start else 1
        return Targets(returns[first:], first, returns[1:])
