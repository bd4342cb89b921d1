"""What diffusers' schedulers make of a known score; run as a script, it writes the golden file.

diffusers is no dependency: the numbers are kept in diffusers_golden.json, and compared with it where it is installed.
"""

import json
from pathlib import Path

import torch

GOLDEN = Path(__file__).with_name("diffusers_golden.json")
START = [-2.0, -0.7, -0.1, 0.4, 1.3, 2.2]
MEAN, STD = 0.3, 0.25  # of the Gaussian whose score is known
COMMON = {"num_train_timesteps": 100, "beta_schedule": "squaredcos_cap_v2"}
SOLVER = COMMON | {"algorithm_type": "dpmsolver++", "final_sigmas_type": "zero", "lower_order_final": True}
CASES = {  # name -> diffusers' class, its arguments, number of steps
    "ddim": ("DDIMScheduler", COMMON | {"clip_sample": False}, 10),
    "ddim-clipped": ("DDIMScheduler", COMMON | {"clip_sample": True, "clip_sample_range": 0.5}, 10),
    "ddpm-mean": ("DDPMScheduler", COMMON | {"clip_sample": False, "variance_type": "fixed_small"}, 100),
    "multi-1": ("DPMSolverMultistepScheduler", SOLVER | {"solver_order": 1}, 10),
    "multi-2": ("DPMSolverMultistepScheduler", SOLVER | {"solver_order": 2}, 10),
    "multi-3": ("DPMSolverMultistepScheduler", SOLVER | {"solver_order": 3}, 10),
    "single-2": ("DPMSolverSinglestepScheduler", SOLVER | {"solver_order": 2}, 9),
}


def eps(x, alpha, sigma):
    return sigma * (x - alpha * MEAN) / ((alpha * STD) ** 2 + sigma**2)


def answers():
    """For each case: the steps that were asked (counted from 0), and the rows at the end."""
    import diffusers

    found = {"version": diffusers.__version__}
    for name, (kind, arguments, steps) in CASES.items():
        scheduler = getattr(diffusers, kind)(**arguments)
        scheduler.set_timesteps(steps)
        x = torch.tensor(START, dtype=torch.float64)[:, None]
        more = {"use_clipped_model_output": True} if name == "ddim-clipped" else {}
        for t in scheduler.timesteps:
            signal = scheduler.alphas_cumprod[int(t)].double()
            noise = eps(x, signal.sqrt(), (1 - signal).sqrt())
            if name == "ddpm-mean":
                with torch.random.fork_rng():
                    torch.manual_seed(int(t))
                    step = scheduler.step(noise, int(t), x)
                    torch.manual_seed(int(t))
                    fresh = torch.randn_like(noise) if int(t) > 0 else torch.zeros_like(noise)
                deviation = scheduler._get_variance(int(t)).double().sqrt() if int(t) > 0 else 0.0
                x = step.prev_sample - deviation * fresh  # its mean: the noise is the generator's matter
            else:
                x = scheduler.step(noise, t, x, **more).prev_sample
        found[name] = {"steps": [int(t) for t in scheduler.timesteps], "rows": x[:, 0].tolist()}
    return found


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(answers(), indent=1))
