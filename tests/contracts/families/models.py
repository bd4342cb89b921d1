"""Rows for models of an env that are learned from a file, and for a policy that learns inside one."""

from functools import partial

from contracts.artifacts import FOLDER, dynamics_artifact, target_file
from contracts.case import TARGET, Case
from contracts.families.offline import offline

from rl_lightning.algorithms import SAC, Density, Dynamics
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.envs.termination import NoTermination
from rl_lightning.models.density import RealNVP

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
        partial(
            ModelRolloutData,
            dataset=target_file(FOLDER / "imagined.npz"),
            env=TARGET,
            batch_size=32,
            updates_per_block=8,
            dynamics=dynamics_artifact(FOLDER / "dynamics"),
            rollout_length=2,
            rollout_batch_size=20,
            rollout_freq=12,
            retain_rollouts=2,
            termination=NoTermination(),
        ),
        partial(SAC, critic_hidden_dims=[16], lr=5e-3),
        (("actor.",), ("q.",), ("log_alpha",)),
        targets=("q_target.",),
        counters=("updates",),
        length=96,
        waits=3,
        copies=2,
    ),
]
