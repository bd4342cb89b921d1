"""Recipes of samplers: how many evaluations, at which times, put together how. `moves` makes the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rl_lightning.errors import ConfigError
from rl_lightning.functional.diffusion_solvers import Move, ddim_moves, multi_moves, single_moves
from rl_lightning.functional.noise_schedules import GRIDS, CosineSteps, Grid, NoiseSchedule


class Sampler(ABC):
    """Recipe of a way from noise to a row."""

    @abstractmethod
    def moves(self, schedule: NoiseSchedule) -> list[Move]:
        """The plan, one move for each evaluation of the network."""


def check_sampler(who: str, steps: int, grid: str) -> None:
    if steps < 1:
        raise ConfigError(f"{who}: steps is {steps}; it must be at least 1")
    if grid not in GRIDS:
        raise ConfigError(f"{who}: grid '{grid}' is unknown; choose one of {', '.join(GRIDS)}")


class DPMSolver(Sampler):
    """DPM-Solver++ (Lu et al. 2022), which predicts the clean row.

    Args:
        steps: Evaluations of the network.
        order: Order of accuracy, 1 to 3; 1 is DDIM.
        grid: Where the evaluations lie: evenly in time (uniform: the paper's), in the root of time (quadratic), or in
            the logarithm of signal to noise (logsnr).
        multistep: Use the guesses of earlier steps instead of asking several times within one.
        lower_last: Let a multistep solver end with steps of lower order; it is unstable on a uniform grid without.
    """

    def __init__(
        self,
        steps: int = 15,
        order: int = 2,
        grid: Grid = "quadratic",
        multistep: bool = False,
        lower_last: bool = True,
    ) -> None:
        check_sampler("DPMSolver", steps, grid)
        if order not in (1, 2, 3):
            raise ConfigError(f"DPMSolver: order is {order}; choose 1, 2 or 3")
        self.steps, self.order, self.grid = steps, order, grid
        self.multistep, self.lower_last = multistep, lower_last

    def moves(self, schedule: NoiseSchedule) -> list[Move]:
        times = schedule.grid(self.steps, self.grid)
        if self.multistep:
            return multi_moves(schedule, times, self.order, self.lower_last)
        return single_moves(schedule, times, self.order)


class DDIM(Sampler):
    """DDIM (Song et al. 2020): the same noise, taken away in few steps.

    Args:
        steps: Evaluations of the network.
        eta: Share of fresh noise at each step; 0 is none, 1 is DDPM's.
        grid: Where the evaluations lie: uniform, quadratic or logsnr.
    """

    def __init__(self, steps: int = 10, eta: float = 0.0, grid: Grid = "uniform") -> None:
        check_sampler("DDIM", steps, grid)
        if not 0.0 <= eta <= 1.0:
            raise ConfigError(f"DDIM: eta is {eta}; it lies between 0 and 1")
        self.steps, self.eta, self.grid = steps, eta, grid

    def moves(self, schedule: NoiseSchedule) -> list[Move]:
        return ddim_moves(schedule, schedule.grid(self.steps, self.grid), self.eta)


class DDPM(Sampler):
    """Ancestral sampling (Ho et al. 2020) over every step of a discrete schedule, with the smaller variance."""

    def moves(self, schedule: NoiseSchedule) -> list[Move]:
        if not isinstance(schedule, CosineSteps):
            raise ConfigError(
                "DDPM walks the steps of a discrete schedule (CosineSteps, LinearSteps); use DDIM here"
            )
        return ddim_moves(schedule, schedule.grid(schedule.steps, "uniform"), 1.0)
