"""Rows for algorithms that learn from a file. Budgets (`env_steps` of a row) are updates here."""

import atexit
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from contracts.cases import TARGET, Case
from safetensors.torch import save_file

from rl_lightning.algorithms import BC, BCQ, FQE, IQL, SAC, TD3_BC, Density, Dynamics
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.envs.termination import NeverEnds
from rl_lightning.models.density import RealNVP
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.models.policies import DeterministicPolicy

FOLDER = Path(tempfile.mkdtemp(prefix="rl-offline-cases-"))
atexit.register(shutil.rmtree, FOLDER, True)


def target_file(path: Path, episodes: int = 60, length: int = 4) -> str:
    """What a player of tests/Target-v0 who aims at the number shown, with an unsteady hand, leaves behind."""
    draw = np.random.default_rng(0)
    goal = draw.integers(-1, 2, (episodes, length + 1)) * 0.8
    action = np.clip(goal[:, :-1] + 0.4 * draw.standard_normal((episodes, length)), -1, 1)
    last = np.zeros((episodes, length), bool)
    last[:, -1] = True
    np.savez(
        path,
        observations=goal[:, :-1].reshape(-1, 1).astype(np.float32),
        actions=action.reshape(-1, 1).astype(np.float32),
        rewards=(1 - np.abs(action - goal[:, :-1])).reshape(-1).astype(np.float32),
        next_observations=goal[:, 1:].reshape(-1, 1).astype(np.float32),
        terminals=last.reshape(-1),
        timeouts=np.zeros(episodes * length, bool),
    )
    return str(path)


def policy_product(folder: Path) -> str:
    """The product of a stage that provides a policy."""
    folder.mkdir()
    torch.manual_seed(0)
    net = DeterministicPolicy(1, 1, [8])
    save_file(net.state_dict(), folder / "weights.safetensors")
    (folder / "product.json").write_text(json.dumps({"provides": {"policy": net.provided("")._asdict()}}))
    return str(folder)


def dynamics_product(folder: Path, seed: int = 0) -> str:
    """The product of a stage that provides a (very poor) model."""
    folder.mkdir()
    torch.manual_seed(seed)
    net = EnsembleDynamics(1, 1, 3, 2, [8])
    save_file(net.state_dict(), folder / "weights.safetensors")
    part = {
        "class_path": "rl_lightning.models.dynamics.ensemble_dynamics.EnsembleDynamics",
        "init_args": net.init_args(),
        "prefix": "",
    }
    (folder / "product.json").write_text(json.dumps({"provides": {"dynamics": part}}))
    return str(folder)


offline = partial(
    OfflineData, dataset=target_file(FOLDER / "target.npz"), env=TARGET, batch_size=32, updates_per_block=8
)
TWIN = {"slow": ("q_slow.", "policy_slow."), "counters": ("updates",)}

OFFLINE = [
    Case("bc", offline, partial(BC, hidden=[32], lr=5e-3), (("policy.",),), 150, 3.2),
    Case("bc-nll", offline, partial(BC, hidden=[32], lr=5e-3, loss="nll"), (("policy.",),), 150, 3.2),
    Case(
        "td3-bc",
        offline,
        partial(TD3_BC, hidden=[32], lr=5e-3, gamma=0.5, target_rate=0.05),
        (("policy.",), ("q.",)),
        200,
        3.2,
        **TWIN,
    ),
    Case(
        "iql",
        offline,
        partial(IQL, hidden=[32], lr=5e-3, gamma=0.5, target_rate=0.05, normalize_obs=True),
        (("policy.",), ("q.",), ("value.",)),
        200,
        3.2,
        slow=("q_slow.",),
    ),
    Case(
        "bcq",
        offline,
        partial(
            BCQ,
            hidden=[32],
            vae_hidden=[32],
            lr=5e-3,
            gamma=0.5,
            target_rate=0.05,
            candidates=20,
            target_candidates=4,
        ),
        (("policy.vae.",), ("policy.q.",), ("policy.actor.",)),
        200,
        3.2,
        slow=("q_slow.", "actor_slow."),
    ),
    Case(
        "fqe",
        offline,
        partial(FQE, policy=policy_product(FOLDER / "product"), hidden=[32], lr=5e-3, gamma=0.5),
        (("q.",),),
        200,
        None,
        slow=("q_slow.",),
    ),
]
MODELS = [
    Case(
        "dynamics",
        partial(offline, bootstrap=3),
        partial(Dynamics, members=3, elites=2, hidden=[16, 16]),
        (("model.",),),
        104,
        None,
        slow=("best.",),
    ),
    Case(
        "density",
        offline,
        partial(Density, density=RealNVP(couplings=2, hidden=[16]), lr=5e-3),
        (("model.",),),
        104,
        None,
        slow=("best.",),
    ),
    Case(
        "sac-imagined",
        partial(
            ModelRolloutData,
            dataset=target_file(FOLDER / "target2.npz"),
            env=TARGET,
            batch_size=32,
            updates_per_block=8,
            dynamics=dynamics_product(FOLDER / "dynamics"),
            horizon=2,
            starts=20,
            rollout_every=12,
            retain=2,
            termination=NeverEnds(),
        ),
        partial(SAC, critic_hidden=[16], lr=5e-3),
        (("actor.",), ("q.",), ("log_alpha",)),
        104,
        None,
        slow=("q_slow.",),
    ),
]
PLAYERS = [case for case in OFFLINE if case.score is not None]
