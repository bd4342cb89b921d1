"""How noise grows in a diffusion: a noisy row is alpha(t) x + sigma(t) e, alpha^2 + sigma^2 = 1, t in (0, 1]."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError

Grid = Literal["time_uniform", "time_quadratic", "logSNR"]
GRIDS: tuple[Grid, ...] = ("time_uniform", "time_quadratic", "logSNR")
EXACT: dict[str, Any] = {
    "dtype": torch.float64,
    "device": "cpu",
}  # plans are plain numbers, wherever networks live
MOST_BETA = 0.999  # the last steps of a cosine would take all signal away


class NoiseSchedule(ABC):
    """What alpha and sigma are at each time."""

    t_min: float  # the least noise that a network is asked about
    clean_end = False  # True: the last step of a sampler goes to the clean row; False: to `first`

    @abstractmethod
    def log_alpha(self, t: Tensor) -> Tensor:
        """Logarithm of the fraction of the signal, in the precision of `t`."""

    @abstractmethod
    def sample_t(self, share: Tensor) -> Tensor:
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
        beta_min: Rate of noise at time 0.
        beta_max: Rate of noise at time 1.
        t_min: Least time that is trained on, where samplers stop.
    """

    def __init__(self, beta_min: float = 0.1, beta_max: float = 20.0, t_min: float = 1e-3) -> None:
        if not 0.0 < beta_min < beta_max or not 0.0 < t_min < 1.0:
            raise ConfigError("VPSchedule: needs 0 < beta_first < beta_last and a first time between 0 and 1")
        self.beta_min, self.beta_max, self.t_min = beta_min, beta_max, t_min

    def log_alpha(self, t: Tensor) -> Tensor:
        return -0.25 * t.square() * (self.beta_max - self.beta_min) - 0.5 * t * self.beta_min

    def time_of(self, half_log_snr: Tensor) -> Tensor:
        """The time at which lambda has this value."""
        span = self.beta_max - self.beta_min
        u = 2.0 * span * torch.nn.functional.softplus(-2.0 * half_log_snr)
        return u / ((self.beta_min**2 + u).sqrt() + self.beta_min) / span

    def sample_t(self, share: Tensor) -> Tensor:
        return self.t_min + (1.0 - self.t_min) * share

    def grid(self, steps: int, kind: Grid) -> Tensor:
        first, last = torch.tensor([self.t_min, 1.0], **EXACT)
        if kind == "logSNR":
            ends = self.half_log_snr(torch.stack((last, first)))
            times = self.time_of(torch.linspace(float(ends[0]), float(ends[1]), steps + 1, **EXACT))
            times[0], times[-1] = last, first
            return times
        power = 2 if kind == "time_quadratic" else 1
        return torch.linspace(1.0, float(first) ** (1 / power), steps + 1, **EXACT) ** power


class CosineBetaSchedule(NoiseSchedule):
    """The squared-cosine schedule in discrete steps (Nichol and Dhariwal 2021), as diffusion policies use it.

    Step k of 1 to `num_train_timesteps` is the time k / steps.

    Args:
        num_train_timesteps: Number of steps.
        offset: Keeps the first steps from adding too little noise.
    """

    clean_end = True

    def __init__(self, num_train_timesteps: int = 100, offset: float = 0.008) -> None:
        if num_train_timesteps < 2 or offset <= 0.0:
            raise ConfigError("CosineBetaSchedule: needs at least 2 steps and an offset above 0")
        self.num_train_timesteps, self.offset, self.t_min = (
            num_train_timesteps,
            offset,
            1.0 / num_train_timesteps,
        )
        share = torch.arange(num_train_timesteps + 1, **EXACT) / num_train_timesteps
        signal = ((share + offset) / (1.0 + offset) * math.pi / 2).cos().square()
        beta = (1.0 - signal[1:] / signal[:-1]).clamp(max=MOST_BETA)
        self.table = 0.5 * torch.log1p(-beta).cumsum(0)  # of log alpha

    def index(self, t: Tensor) -> Tensor:
        return (t.double() * self.num_train_timesteps).round().long().clamp(1, self.num_train_timesteps) - 1

    def log_alpha(self, t: Tensor) -> Tensor:
        return self.table.to(t.device)[self.index(t)].to(t.dtype)

    def sample_t(self, share: Tensor) -> Tensor:
        return ((share * self.num_train_timesteps).floor() + 1.0) / self.num_train_timesteps

    def grid(self, steps: int, kind: Grid) -> Tensor:
        if steps > self.num_train_timesteps:
            raise ConfigError(
                f"a sampler of {steps} steps needs a schedule of as many; this has {self.num_train_timesteps}"
            )
        if kind == "logSNR":
            known = torch.arange(1, self.num_train_timesteps + 1, **EXACT) / self.num_train_timesteps
            snr = self.half_log_snr(known)
            wanted = torch.linspace(float(snr[-1]), float(snr[0]), steps, **EXACT)
            index = (snr[None] - wanted[:, None]).abs().argmin(-1) + 1
        else:
            power = 2 if kind == "time_quadratic" else 1
            line = torch.linspace(self.num_train_timesteps ** (1 / power), 1.0, steps, **EXACT)
            index = (line**power).round().long()
        index = torch.unique(index).flip(0)  # nodes that fell together are asked once
        return torch.cat((index.double() / self.num_train_timesteps, torch.zeros(1, **EXACT)))


class LinearBetaSchedule(CosineBetaSchedule):
    """Discrete steps whose noise rises along a straight line (Ho et al. 2020).

    Args:
        num_train_timesteps: Number of steps.
        beta_start: Variance that the first step adds.
        beta_end: Variance that the last step adds.
    """

    def __init__(
        self, num_train_timesteps: int = 100, beta_start: float = 1e-4, beta_end: float = 0.02
    ) -> None:
        if num_train_timesteps < 2 or not 0.0 < beta_start < beta_end < 1.0:
            raise ConfigError("LinearBetaSchedule: needs at least 2 steps and 0 < beta_first < beta_last < 1")
        self.num_train_timesteps, self.t_min = num_train_timesteps, 1.0 / num_train_timesteps
        self.beta_start, self.beta_end = beta_start, beta_end
        beta = torch.linspace(beta_start, beta_end, num_train_timesteps, **EXACT)
        self.table = 0.5 * torch.log1p(-beta).cumsum(0)


class VPBetaSchedule(CosineBetaSchedule):
    """The variance-preserving schedule in few discrete steps, as Diffusion-QL and IDQL have it.

    Args:
        num_train_timesteps: Number of steps.
        beta_min: Rate of noise at time 0.
        beta_max: Rate of noise at time 1.
    """

    def __init__(self, num_train_timesteps: int = 5, beta_min: float = 0.1, beta_max: float = 10.0) -> None:
        if num_train_timesteps < 2 or not 0.0 < beta_min < beta_max:
            raise ConfigError("VPBetaSchedule: needs at least 2 steps and 0 < beta_min < beta_max")
        self.num_train_timesteps, self.t_min = num_train_timesteps, 1.0 / num_train_timesteps
        self.beta_min, self.beta_max = beta_min, beta_max
        steps = torch.arange(1, num_train_timesteps + 1, **EXACT)
        share = (2.0 * steps - 1.0) / num_train_timesteps**2
        rate = beta_min / num_train_timesteps + 0.5 * (beta_max - beta_min) * share
        self.table = -0.5 * rate.cumsum(0)  # of log alpha: a step's beta is 1 - exp(-rate)
