"""Our samplers give what diffusers' schedulers give, where both mean the same thing."""

import json

import pytest
import torch
from diffusers_oracle import CASES, GOLDEN, START, answers, eps

from rl_lightning.functional.diffusion_solvers import ddim_steps, multistep_steps, singlestep_steps, solve
from rl_lightning.functional.noise_schedules import CosineBetaSchedule

SCHEDULE = CosineBetaSchedule(100)


def ours(name: str, steps: list[int]) -> torch.Tensor:
    times = torch.tensor([*[(k + 1) / 100 for k in steps], 0.0], dtype=torch.float64)
    plan = {
        "ddim": lambda: ddim_steps(SCHEDULE, times, 0.0),
        "ddpm": lambda: [move._replace(noise=0.0) for move in ddim_steps(SCHEDULE, times, 1.0)],
        "multi": lambda: multistep_steps(SCHEDULE, times, int(name[-1]), True),
        "single": lambda: singlestep_steps(SCHEDULE, times, int(name[-1])),
    }
    moves = plan[name.split("-")[0]]()

    def known(x: torch.Tensor, t: float) -> torch.Tensor:
        return eps(x, *SCHEDULE.alpha_sigma(torch.tensor(t, dtype=torch.float64)))

    clip = 0.5 if name.endswith("clipped") else None
    return solve(known, torch.tensor(START, dtype=torch.float64), moves, clip)


@pytest.mark.parametrize("name", CASES)
def test_golden_values_of_diffusers(name):
    wanted = json.loads(GOLDEN.read_text())[name]
    assert torch.allclose(ours(name, wanted["steps"]), torch.tensor(wanted["rows"]).double(), atol=1e-4)


def test_against_an_installed_diffusers():
    pytest.importorskip("diffusers")
    for name, wanted in answers().items():
        if name != "version":
            rows = torch.tensor(wanted["rows"]).double()
            assert torch.allclose(ours(name, wanted["steps"]), rows, atol=1e-4), name
