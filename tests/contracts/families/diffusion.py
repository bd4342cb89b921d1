"""Rows for what learns by diffusion from a file."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from algorithms.diffusion_toys import artifact
from contracts.artifacts import FOLDER, target_file
from contracts.case import TARGET, Case, Toy
from contracts.families.offline import PARTS, RATES, XOR, offline, parts

from rl_lightning.algorithms import FQL, BehaviorDiffusion, DiceGuidance, DiffusionPolicy, DiffusionQL
from rl_lightning.datamodules.window_data import WindowData
from rl_lightning.functional.diffusion_samplers import DDIM, DPMSolver
from rl_lightning.functional.noise_schedules import CosineBetaSchedule
from rl_lightning.models.diffusion.candidate_filters import SoftmaxFilter
from rl_lightning.nn.denoisers.row_denoisers import MLPDenoiser
from rl_lightning.types import EnvSpec

NET = partial(MLPDenoiser, hidden_dims=[32, 32], time_embed_dim=8)
behavior = partial(BehaviorDiffusion, denoiser=NET, lr=5e-3, sampler=DPMSolver(4), clip_denoised=1.0)


def behavior_artifact(folder: Path) -> str:
    """The artifact of a stage that provides a (quite untrained) behaviour."""
    torch.manual_seed(0)
    return artifact(behavior(EnvSpec("tests/Target-v0", (1,), action_shape=(1,))), folder)


dice = partial(
    DiceGuidance, behavior=behavior_artifact(FOLDER / "behavior"), critic_hidden_dims=[16], guide_hidden_dims=[16, 16],
    num_noise_samples=2, num_samples=3, sampler=DPMSolver(3), clip_denoised=1.0,
)  # fmt: skip
windows = partial(
    WindowData, dataset=target_file(FOLDER / "windows.npz"), env=TARGET, batch_size=32, updates_per_block=8, horizon=4,
    n_action_steps=1,
)  # fmt: skip

AVERAGED: dict[str, Any] = {
    "optimizers": (("model.",),), "toy": Toy(300, 2.3), "targets": ("average.",), "counters": ("updates",),
    "length": 96, "waits": 2, "copies": 2,
}  # fmt: skip

CASES = [
    Case("behavior", offline, behavior, **AVERAGED),
    Case(
        "diffusion-ql",
        offline,
        partial(
            DiffusionQL,
            denoiser=NET,
            critic_hidden_dims=[32],
            lr=5e-3,
            gamma=0.5,
            tau=0.05,
            num_target_samples=2,
            num_samples=4,
            ema_every=2,
        ),
        (("model.",), ("q.",)),
        Toy(200, 2.8),
        targets=("average.", "q_target."),
        counters=("updates",),
        length=96,
        waits=4,
        copies=7,
    ),
    Case(
        "fql",
        offline,
        partial(FQL, **RATES, tau=0.05, flow_steps=3, distill_coef=1.0),
        (("policy.", "flow."), ("q.",)),
        Toy(200, 2.8),
        targets=("q_target.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "dice",
        offline,
        dice,
        (("value.",), ("q.",), ("guide.",)),
        targets=("q_target.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "dice-ensemble",
        offline,
        partial(
            dice,
            num_selection_critics=3,
            candidate_filter=SoftmaxFilter(),
            normalize_obs=True,
            sampling_dtype="bfloat16",
        ),
        (("value.",), ("q.",), ("selection_q.",), ("guide.",)),
        targets=("q_target.",),
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
            noise_schedule=CosineBetaSchedule(10),
            sampler=DDIM(5),
            horizon=4,
            n_action_steps=1,
            lr=5e-3,
        ),
        **AVERAGED,
    ),
    Case(
        "diffusion-policy-parts",
        partial(windows, dataset=parts.keywords["dataset"], env=XOR),
        partial(
            DiffusionPolicy,
            denoiser=NET,
            noise_schedule=CosineBetaSchedule(10),
            sampler=DDIM(5),
            horizon=4,
            n_action_steps=1,
            lr=5e-3,
            obs_encoder=PARTS,
        ),
        **{**AVERAGED, "toy": None, "onnx": False},
    ),
]
