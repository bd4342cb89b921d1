"""Rows for agents that learn from a file."""

from functools import partial
from typing import Any

from contracts.artifacts import FOLDER, dynamics_artifact, policy_artifact, target_file, walks_file, xor_file
from contracts.case import LAKE, TARGET, Case, Toy, env
from contracts.families.planning import SMALL as SHORT_PLANS

from rl_lightning.algorithms import (
    BC,
    BCQ,
    CQL,
    EDAC,
    FQE,
    IQL,
    TD3_BC,
    DecisionTransformer,
    DiscreteCQL,
    DiscreteIQL,
    EnsembleMPC,
    ReBRAC,
)
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datamodules.trajectory_data import TrajectoryData
from rl_lightning.envs.termination import NoTermination
from rl_lightning.models.imitation_losses import NegativeLogLikelihood
from rl_lightning.nn import MLP, MultiInput, SmallCNN
from rl_lightning.optim.schedules import Constant
from rl_lightning.planning.planners import MPPI

offline = partial(
    OfflineData, dataset=target_file(FOLDER / "target.npz"), env=TARGET, batch_size=32, updates_per_block=8
)
lake = partial(
    OfflineData,
    dataset=walks_file(FOLDER / "lake.hdf5", LAKE),
    env=LAKE,
    batch_size=32,
    updates_per_block=8,
)
trajectories = partial(
    TrajectoryData,
    dataset=offline.keywords["dataset"],
    env=TARGET,
    context_length=3,
    batch_size=32,
    updates_per_block=8,
)
XOR = env("rl/Xor-v0", screen_size=6, continuous=True)
parts = partial(offline, dataset=xor_file(FOLDER / "xor.hdf5", XOR), env=XOR)
PARTS = partial(
    MultiInput,
    encoders={"image": partial(SmallCNN, channels=[8], hidden_dim=32)},
    trunk=partial(MLP, hidden_dims=[32], activation="tanh"),
)
CLONES: dict[str, Any] = {"optimizers": (("policy.",),), "toy": Toy(150, 3.2), "length": 96}
SOFT: dict[str, Any] = {"targets": ("q_target.",), "length": 96, "waits": 4, "copies": 2}
RATES = {"hidden_dims": [32], "lr": 5e-3, "gamma": 0.5}

CASES = [
    Case("bc", offline, partial(BC, hidden_dims=[32], lr=5e-3), **CLONES),
    Case(
        "bc-nll",
        offline,
        partial(BC, hidden_dims=[32], lr=5e-3, loss=NegativeLogLikelihood()),
        **CLONES,
        copies=2,
    ),
    Case(
        "td3-bc",
        offline,
        partial(TD3_BC, **RATES, tau=0.05),
        (("policy.",), ("q.",)),
        Toy(200, 3.2),
        targets=("q_target.", "policy_target."),
        counters=("updates",),
        length=96,
        waits=3,
    ),
    Case(
        "rebrac",
        offline,
        partial(ReBRAC, **RATES, tau=0.05),
        (("policy.",), ("q.",)),
        Toy(200, 3.2),
        targets=("q_target.", "policy_target."),
        counters=("updates",),
        length=96,
        waits=3,
    ),
    Case(
        "cql",
        offline,
        partial(
            CQL,
            **RATES,
            tau=0.05,
            critic_lr=5e-3,
            cql_n_actions=3,
            cql_target_action_gap=3.0,
            initial_alpha=0.1,
        ),
        (("policy.",), ("q.",), ("log_alpha",), ("log_multiplier",)),
        Toy(200, 3.2),
        **{**SOFT, "waits": 5},
    ),
    Case(
        "edac",
        offline,
        partial(EDAC, **RATES, tau=0.05, num_critics=3),
        (("policy.",), ("q.",), ("log_alpha",)),
        Toy(200, 3.2),
        **SOFT,
    ),
    Case(
        "decision-transformer",
        trajectories,
        partial(
            DecisionTransformer,
            context_length=3,
            max_timestep=4,
            return_scale=4.0,
            embed_dim=16,
            num_layers=1,
            num_heads=2,
            lr=1e-2,
            lr_schedule=Constant(),
        ),
        (("policy.",),),
        Toy(200, 3.2),
        length=96,
        waits=2,
        copies=3,
    ),
    Case(
        "iql",
        offline,
        partial(IQL, **RATES, tau=0.05, normalize_obs=True),
        (("policy.",), ("q.",), ("value.",)),
        Toy(200, 3.2),
        targets=("q_target.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "cql-discrete",
        lake,
        partial(
            DiscreteCQL,
            network=partial(MLP, hidden_dims=[32], activation="tanh"),
            cql_alpha=0.05,
            lr=5e-3,
            gamma=0.7,
            target_every=10,
        ),
        (("q.",),),
        Toy(300, 0.95),
        targets=("q_target.",),
        counters=("since_copy",),
        blocks=3,
        length=96,
        waits=2,
        copies=2,
    ),
    Case(
        "iql-discrete",
        lake,
        partial(DiscreteIQL, hidden_dims=[32], lr=5e-3, gamma=0.9, tau=0.05, expectile=0.9, beta=10.0),
        (("policy.",), ("q.",), ("value.",)),
        Toy(400, 0.95),
        targets=("q_target.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "bc-parts",
        parts,
        partial(BC, lr=5e-3, network=PARTS),
        **{**CLONES, "toy": Toy(300, 0.9)},
    ),
    Case(
        "iql-parts",
        parts,
        partial(IQL, lr=5e-3, gamma=0.5, tau=0.05, normalize_obs=True, network=PARTS, critic_network=PARTS),
        (("policy.",), ("q.",), ("value.",)),
        Toy(400, 0.9),
        targets=("q_target.",),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "bcq",
        offline,
        partial(BCQ, **RATES, vae_hidden_dims=[32], tau=0.05, num_samples=20, num_target_samples=4),
        (("policy.vae.",), ("policy.q.",), ("policy.actor.",)),
        Toy(200, 3.2),
        targets=("q_target.", "actor_target."),
        length=96,
        waits=3,
        copies=2,
    ),
    Case(
        "fqe",
        offline,
        partial(FQE, policy_from=policy_artifact(FOLDER / "policy"), **RATES),
        (("q.",),),
        targets=("q_target.",),
        notes=("history",),
        length=96,
    ),
    Case(
        "ensemble-mpc",
        offline,
        partial(
            EnsembleMPC,
            dynamics=dynamics_artifact(FOLDER / "mpc-dynamics"),
            policy_from=policy_artifact(FOLDER / "mpc-policy"),
            planner=MPPI(**SHORT_PLANS),
            termination=NoTermination(),
        ),
        length=48,
        onnx=False,
        waits=0,
        copies=16,
    ),
]
