"""Samplers: how many evaluations, at which times, put together how. `moves` makes the plan."""

from __future__ import annotations

from abc import ABC, abstractmethod

from rl_lightning.errors import ConfigError
from rl_lightning.functional.diffusion_solvers import (
    SolverStep,
    ddim_steps,
    multistep_steps,
    singlestep_steps,
)
from rl_lightning.functional.noise_schedules import GRIDS, CosineBetaSchedule, Grid, NoiseSchedule


class Sampler(ABC):
    """A way from noise to a row."""

    @abstractmethod
    def solver_steps(self, schedule: NoiseSchedule) -> list[SolverStep]:
        """The plan, one move for each evaluation of the network."""


def check_sampler(who: str, steps: int, grid: str) -> None:
    if steps < 1:
        raise ConfigError(f"{who}: steps is {steps}; it must be at least 1")
    if grid not in GRIDS:
        raise ConfigError(f"{who}: grid '{grid}' is unknown; choose one of {', '.join(GRIDS)}")


class DPMSolver(Sampler):
    """DPM-Solver++ (Lu et al. 2022), which predicts the clean row.

    Args:
        num_inference_steps: Evaluations of the network.
        order: Order of accuracy, 1 to 3; 1 is DDIM.
        skip_type: Where the evaluations lie: evenly in time (uniform: the paper's), in the root of time (quadratic),
            or in the logarithm of signal to noise (logsnr).
        multistep: Use the guesses of earlier steps instead of asking several times within one.
        lower_order_final: Let a multistep solver end with steps of lower order; it is unstable on a uniform grid
            without.
    """

    def __init__(
        self,
        num_inference_steps: int = 15,
        order: int = 2,
        skip_type: Grid = "time_quadratic",
        multistep: bool = False,
        lower_order_final: bool = True,
    ) -> None:
        check_sampler("DPMSolver", num_inference_steps, skip_type)
        if order not in (1, 2, 3):
            raise ConfigError(f"DPMSolver: order is {order}; choose 1, 2 or 3")
        self.num_inference_steps, self.order, self.skip_type = num_inference_steps, order, skip_type
        self.multistep, self.lower_order_final = multistep, lower_order_final

    def solver_steps(self, schedule: NoiseSchedule) -> list[SolverStep]:
        times = schedule.grid(self.num_inference_steps, self.skip_type)
        if self.multistep:
            return multistep_steps(schedule, times, self.order, self.lower_order_final)
        return singlestep_steps(schedule, times, self.order)


class DDIM(Sampler):
    """DDIM (Song et al. 2020): the same noise, taken away in few steps.

    Args:
        num_inference_steps: Evaluations of the network.
        eta: Fraction of fresh noise at each step; 0 is none, 1 is DDPM's.
        skip_type: Where the evaluations lie: uniform, quadratic or logsnr.
    """

    def __init__(
        self, num_inference_steps: int = 10, eta: float = 0.0, skip_type: Grid = "time_uniform"
    ) -> None:
        check_sampler("DDIM", num_inference_steps, skip_type)
        if not 0.0 <= eta <= 1.0:
            raise ConfigError(f"DDIM: eta is {eta}; it lies between 0 and 1")
        self.num_inference_steps, self.eta, self.skip_type = num_inference_steps, eta, skip_type

    def solver_steps(self, schedule: NoiseSchedule) -> list[SolverStep]:
        return ddim_steps(schedule, schedule.grid(self.num_inference_steps, self.skip_type), self.eta)


class DDPM(Sampler):
    """Ancestral sampling (Ho et al. 2020) over every step of a discrete schedule, with the smaller variance."""

    def solver_steps(self, schedule: NoiseSchedule) -> list[SolverStep]:
        if not isinstance(schedule, CosineBetaSchedule):
            raise ConfigError(
                "DDPM walks the steps of a discrete schedule (CosineBetaSchedule, LinearBetaSchedule); use DDIM here"
            )
        return ddim_steps(schedule, schedule.grid(schedule.num_train_timesteps, "time_uniform"), 1.0)
