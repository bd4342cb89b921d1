"""Rows for models of an env that are learned from a file, and for a policy that learns inside one."""

from functools import partial
from typing import Any

from contracts.artifacts import FOLDER, dynamics_artifact, target_file
from contracts.case import TARGET, Case, Toy
from contracts.families.offline import offline

from rl_lightning.algorithms import COMBO, MOBILE, SAC, Density, Dynamics
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.envs.termination import NoTermination
from rl_lightning.models.density import RealNVP

MODEL = dynamics_artifact(FOLDER / "dynamics")
imagined = partial(
    ModelRolloutData,
    dataset=target_file(FOLDER / "imagined.npz"),
    env=TARGET,
    batch_size=32,
    updates_per_block=8,
    dynamics=MODEL,
    rollout_length=2,
    rollout_batch_size=20,
    rollout_freq=12,
    retain_rollouts=2,
    termination=NoTermination(),
)
mixed = partial(imagined, real_ratio=0.75, rollout_batch_size=40)
RATES = {"hidden_dims": [32], "lr": 5e-3, "critic_lr": 5e-3, "gamma": 0.5, "tau": 0.05, "initial_alpha": 0.1}
SOFT: dict[str, Any] = {"targets": ("q_target.",), "length": 96, "copies": 2}
THREE = (("policy.",), ("q.",), ("log_alpha",))

CASES = [
    Case(
        "dynamics",
        partial(offline, ensemble_bootstrap=3),
        partial(Dynamics, ensemble_size=3, num_elites=2, hidden_dims=[16, 16]),
        (("model.",),),
        frozen=("best.",),
        notes=("best.",),
        length=96,
    ),
    Case(
        "density",
        offline,
        partial(Density, density_model=partial(RealNVP, num_couplings=2, hidden_dims=[16]), lr=5e-3),
        (("model.",),),
        frozen=("best.",),
        # it is looked at after whole passes over the data, which cut its blocks
        notes=("",),
        length=96,
    ),
    Case(
        "sac-imagined",
        imagined,
        partial(SAC, critic_hidden_dims=[16], lr=5e-3),
        (("actor.",), ("q.",), ("log_alpha",)),
        targets=("q_target.",),
        counters=("updates",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "combo",
        mixed,
        partial(COMBO, **RATES, cql_alpha=1.0, cql_n_actions=2, rho_s="model"),
        THREE,
        Toy(200, 3.2),
        waits=6,
        **SOFT,
    ),
    Case(
        "mobile",
        mixed,
        partial(MOBILE, dynamics=MODEL, **RATES, num_next_samples=2),
        THREE,
        Toy(200, 3.2),
        waits=5,
        **SOFT,
    ),
]
