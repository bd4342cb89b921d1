"""Numbers that change over a run: learning rate, epsilon, clip range, priority exponent."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from rl_lightning.errors import ConfigError


def _check_fraction(fraction: float) -> float:
    if not 0.0 < fraction <= 1.0:
        raise ConfigError(f"fraction must lie above 0 and not above 1, not {fraction}.")
    return fraction


class Schedule(ABC):
    """How a number moves from its starting value as the run goes on."""

    @abstractmethod
    def value(self, start: float, progress: float) -> float:
        """The number at `progress`, the fraction of the budget that is spent, in [0, 1]."""


class Constant(Schedule):
    """The starting value throughout."""

    def value(self, start: float, progress: float) -> float:
        return start


class Linear(Schedule):
    """A straight line from the starting value to another, then that one.

    Args:
        end: Value reached and kept.
        fraction: Fraction of the run after which it is reached.
    """

    def __init__(self, end: float = 0.0, fraction: float = 1.0) -> None:
        self.end = end
        self.fraction = _check_fraction(fraction)

    def value(self, start: float, progress: float) -> float:
        share = min(max(progress, 0.0) / self.fraction, 1.0)
        return (1.0 - share) * start + share * self.end


class Cosine(Schedule):
    """Half a cosine wave from the starting value to another, then that one.

    Args:
        end: Value reached and kept.
        fraction: Fraction of the run after which it is reached.
    """

    def __init__(self, end: float = 0.0, fraction: float = 1.0) -> None:
        self.end = end
        self.fraction = _check_fraction(fraction)

    def value(self, start: float, progress: float) -> float:
        share = min(max(progress, 0.0) / self.fraction, 1.0)
        weight = 0.5 * (1.0 + math.cos(math.pi * share))
        return weight * start + (1.0 - weight) * self.end


class Exponential(Schedule):
    """Equal factors in equal times from the starting value to another, then that one.

    Args:
        end: Value reached and kept; above 0.
        fraction: Fraction of the run after which it is reached.
    """

    def __init__(self, end: float, fraction: float = 1.0) -> None:
        if end <= 0.0:
            raise ConfigError(f"end must be above 0 in an exponential schedule, not {end}.")
        self.end = end
        self.fraction = _check_fraction(fraction)

    def value(self, start: float, progress: float) -> float:
        share = min(max(progress, 0.0) / self.fraction, 1.0)
        return start ** (1.0 - share) * self.end**share


class Warmup(Schedule):
    """A straight line from 0 up to the starting value, then another schedule over the rest of the run.

    Args:
        fraction: Fraction of the run spent rising.
        then: Schedule of the rest; constant when left out.
    """

    def __init__(self, fraction: float = 0.05, then: Schedule | None = None) -> None:
        self.fraction = _check_fraction(fraction)
        self.then = then if then is not None else Constant()

    def value(self, start: float, progress: float) -> float:
        if progress < self.fraction:
            return start * max(progress, 0.0) / self.fraction
        rest = 1.0 - self.fraction
        return self.then.value(start, (progress - self.fraction) / rest if rest > 0.0 else 1.0)
