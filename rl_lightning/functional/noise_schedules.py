"""How noise grows in a diffusion: a noisy row is alpha(t) x + sigma(t) e, alpha^2 + sigma^2 = 1, t in (0, 1]."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError

Grid = Literal["uniform", "quadratic", "logsnr"]
GRIDS: tuple[Grid, ...] = ("uniform", "quadratic", "logsnr")
EXACT: dict[str, Any] = {
    "dtype": torch.float64,
    "device": "cpu",
}  # plans are plain numbers, wherever networks live
MOST_BETA = 0.999  # the last steps of a cosine would take all signal away


class NoiseSchedule(ABC):
    """What alpha and sigma are at each time."""

    first: float  # the least noise that a network is asked about
    clean_end = False  # True: the last step of a sampler goes to the clean row; False: to `first`

    @abstractmethod
    def log_alpha(self, t: Tensor) -> Tensor:
        """Logarithm of the share of the signal, in the precision of `t`."""

    @abstractmethod
    def draw(self, share: Tensor) -> Tensor:
        """Times to train at, from numbers drawn uniformly from [0, 1)."""

    @abstractmethod
    def grid(self, steps: int, kind: Grid) -> Tensor:
        """`steps` + 1 falling times from 1 to `first`, float64."""

    def alpha_sigma(self, t: Tensor) -> tuple[Tensor, Tensor]:
        log_alpha = self.log_alpha(t)
        return log_alpha.exp(), (-torch.expm1(2.0 * log_alpha)).sqrt()

    def half_log_snr(self, t: Tensor) -> Tensor:
        """lambda = log(alpha / sigma)."""
        log_alpha = self.log_alpha(t)
        return log_alpha - 0.5 * torch.log(-torch.expm1(2.0 * log_alpha))


class VPSchedule(NoiseSchedule):
    """Variance-preserving diffusion in continuous time; the rate of noise rises along a straight line.

    Args:
        beta_first: Rate of noise at time 0.
        beta_last: Rate of noise at time 1.
        first: Least time that is trained on, where samplers stop.
    """

    def __init__(self, beta_first: float = 0.1, beta_last: float = 20.0, first: float = 1e-3) -> None:
        if not 0.0 < beta_first < beta_last or not 0.0 < first < 1.0:
            raise ConfigError("VPSchedule: needs 0 < beta_first < beta_last and a first time between 0 and 1")
        self.beta_first, self.beta_last, self.first = beta_first, beta_last, first

    def log_alpha(self, t: Tensor) -> Tensor:
        return -0.25 * t.square() * (self.beta_last - self.beta_first) - 0.5 * t * self.beta_first

    def time_of(self, half_log_snr: Tensor) -> Tensor:
        """The time at which lambda has this value."""
        span = self.beta_last - self.beta_first
        u = 2.0 * span * torch.nn.functional.softplus(-2.0 * half_log_snr)
        return u / ((self.beta_first**2 + u).sqrt() + self.beta_first) / span

    def draw(self, share: Tensor) -> Tensor:
        return self.first + (1.0 - self.first) * share

    def grid(self, steps: int, kind: Grid) -> Tensor:
        first, last = torch.tensor([self.first, 1.0], **EXACT)
        if kind == "logsnr":
            ends = self.half_log_snr(torch.stack((last, first)))
            times = self.time_of(torch.linspace(float(ends[0]), float(ends[1]), steps + 1, **EXACT))
            times[0], times[-1] = last, first
            return times
        power = 2 if kind == "quadratic" else 1
        return torch.linspace(1.0, float(first) ** (1 / power), steps + 1, **EXACT) ** power


class CosineSteps(NoiseSchedule):
    """The squared-cosine schedule in discrete steps (Nichol and Dhariwal 2021), as diffusion policies use it.

    Step k of 1 to `steps` is the time k / steps.

    Args:
        steps: Number of steps.
        offset: Keeps the first steps from adding too little noise.
    """

    clean_end = True

    def __init__(self, steps: int = 100, offset: float = 0.008) -> None:
        if steps < 2 or offset <= 0.0:
            raise ConfigError("CosineSteps: needs at least 2 steps and an offset above 0")
        self.steps, self.offset, self.first = steps, offset, 1.0 / steps
        share = torch.arange(steps + 1, **EXACT) / steps
        signal = ((share + offset) / (1.0 + offset) * math.pi / 2).cos().square()
        beta = (1.0 - signal[1:] / signal[:-1]).clamp(max=MOST_BETA)
        self.table = 0.5 * torch.log1p(-beta).cumsum(0)  # of log alpha

    def index(self, t: Tensor) -> Tensor:
        return (t.double() * self.steps).round().long().clamp(1, self.steps) - 1

    def log_alpha(self, t: Tensor) -> Tensor:
        return self.table.to(t.device)[self.index(t)].to(t.dtype)

    def draw(self, share: Tensor) -> Tensor:
        return ((share * self.steps).floor() + 1.0) / self.steps

    def grid(self, steps: int, kind: Grid) -> Tensor:
        if steps > self.steps:
            raise ConfigError(
                f"a sampler of {steps} steps needs a schedule of as many; this has {self.steps}"
            )
        if kind == "logsnr":
            known = torch.arange(1, self.steps + 1, **EXACT) / self.steps
            snr = self.half_log_snr(known)
            wanted = torch.linspace(float(snr[-1]), float(snr[0]), steps, **EXACT)
            index = (snr[None] - wanted[:, None]).abs().argmin(-1) + 1
        else:
            power = 2 if kind == "quadratic" else 1
            line = torch.linspace(self.steps ** (1 / power), 1.0, steps, **EXACT)
            index = (line**power).round().long()
        index = torch.unique(index).flip(0)  # nodes that fell together are asked once
        return torch.cat((index.double() / self.steps, torch.zeros(1, **EXACT)))


class LinearSteps(CosineSteps):
    """Discrete steps whose noise rises along a straight line (Ho et al. 2020).

    Args:
        steps: Number of steps.
        beta_first: Variance that the first step adds.
        beta_last: Variance that the last step adds.
    """

    def __init__(self, steps: int = 100, beta_first: float = 1e-4, beta_last: float = 0.02) -> None:
        if steps < 2 or not 0.0 < beta_first < beta_last < 1.0:
            raise ConfigError("LinearSteps: needs at least 2 steps and 0 < beta_first < beta_last < 1")
        self.steps, self.first = steps, 1.0 / steps
        self.beta_first, self.beta_last = beta_first, beta_last
        beta = torch.linspace(beta_first, beta_last, steps, **EXACT)
        self.table = 0.5 * torch.log1p(-beta).cumsum(0)
