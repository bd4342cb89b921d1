"""Rows for what learns by diffusion from a file."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from algorithms.diffusion_toys import product
from contracts.artifacts import FOLDER, target_file
from contracts.case import TARGET, Case, Toy
from contracts.families.offline import offline

from rl_lightning.algorithms import BehaviorDiffusion, DiceGuidance, DiffusionPolicy
from rl_lightning.datamodules.window_data import WindowData
from rl_lightning.functional.diffusion_samplers import DDIM, DPMSolver
from rl_lightning.functional.noise_schedules import CosineSteps
from rl_lightning.models.diffusion.candidate_filters import SoftmaxFilter
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser
from rl_lightning.types import EnvSpec

NET = MLPDenoiser([32, 32], 8)
behavior = partial(BehaviorDiffusion, denoiser=NET, lr=5e-3, sampler=DPMSolver(4), clip_guess=1.0)


def behavior_product(folder: Path) -> str:
    """The product of a stage that provides a (quite untrained) behaviour."""
    torch.manual_seed(0)
    return product(behavior(EnvSpec("tests/Target-v0", (1,), action_shape=(1,))), folder)


dice = partial(
    DiceGuidance, behavior=behavior_product(FOLDER / "behavior"), critic_hidden=[16], guide_hidden=[16, 16],
    noise_draws=2, candidates=3, sampler=DPMSolver(3), clip_guess=1.0,
)  # fmt: skip
windows = partial(
    WindowData, dataset=target_file(FOLDER / "windows.npz"), env=TARGET, batch_size=32, updates_per_block=8, horizon=4,
    act_steps=1,
)  # fmt: skip

AVERAGED: dict[str, Any] = {
    "optimizers": (("model.",),), "toy": Toy(300, 2.3), "targets": ("average.",), "counters": ("updates",),
    "length": 96, "waits": 2, "copies": 2,
}  # fmt: skip

CASES = [
    Case("behavior", offline, behavior, **AVERAGED),
    Case(
        "dice",
        offline,
        dice,
        (("value.",), ("q.",), ("guide.",)),
        targets=("q_slow.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "dice-ensemble",
        offline,
        partial(dice, ensemble=3, filter=SoftmaxFilter(), normalize_obs=True, precision="half"),
        (("value.",), ("q.",), ("q_more.",), ("guide.",)),
        targets=("q_slow.",),
        length=96,
        onnx=False,
        waits=4,
        copies=3,
    ),
    Case(
        "diffusion-policy",
        windows,
        partial(
            DiffusionPolicy,
            denoiser=NET,
            schedule=CosineSteps(10),
            sampler=DDIM(5),
            horizon=4,
            act_steps=1,
            lr=5e-3,
        ),
        **AVERAGED,
    ),
]
