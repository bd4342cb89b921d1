"""Small files for stages to begin with: a data set, and what earlier stages have left."""

import atexit
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from rl_lightning.artifacts import Exported
from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.behaviors.record_transitions import record_transitions
from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.envs.make import EnvConfig, describe, make_env, make_envs
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics
from rl_lightning.models.policies import DeterministicPolicy
from rl_lightning.rollout.collect import Collector

FOLDER = Path(tempfile.mkdtemp(prefix="rl-cases-"))
atexit.register(shutil.rmtree, FOLDER, True)


def artifact(folder: Path, parts: dict[str, tuple[nn.Module, Exported]]) -> str:
    """What a stage leaves that exports some modules."""
    folder.mkdir(parents=True)
    weights = {
        f"{key}.{name}": value.contiguous().clone()
        for key, (module, _) in parts.items()
        for name, value in module.state_dict().items()
    }
    save_file(weights, folder / "weights.safetensors")
    told = {key: part._replace(prefix=f"{key}.")._asdict() for key, (_, part) in parts.items()}
    (folder / "artifact.json").write_text(json.dumps({"exports": told}))
    return str(folder)


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


def random_walks(config: EnvConfig, rows: int = 320) -> dict[str, np.ndarray]:
    """What random actions leave behind, as arrays."""
    envs = make_envs(config, 2)
    draw = torch.Generator().manual_seed(0)
    arrays, _ = record_transitions(Collector(envs, 0), random_actor(envs.env_spec), rows, draw)
    envs.close()
    return arrays


def walks_file(path: Path, config: EnvConfig) -> str:
    write_hdf5(path, Raw("", random_walks(config), {}, {"env_id": config.id}))
    return str(path)


def xor_file(path: Path, config: EnvConfig, rows: int = 400) -> str:
    """What a player of rl/Xor-v0 who knows the answers leaves behind: rows of bytes."""
    env = make_env(config)
    spec, (obs, _) = describe(env), env.reset(seed=0)
    played: dict[str, list[Any]] = {}
    for _ in range(rows):
        hidden = env.unwrapped
        action = np.float32([0.8 if hidden.bright != hidden.positive else -0.8])
        following, reward, terminated, _, _ = env.step(action)
        row = (obs.copy(), action, reward, following.copy(), terminated, False)
        for key, value in zip(
            ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts"),
            row,
            strict=True,
        ):
            played.setdefault(key, []).append(value)
        obs = env.reset()[0] if terminated else following
    metadata = {"env_id": spec.env_id, "obs_parts": [list(part) for part in spec.obs_parts]}
    write_hdf5(path, Raw("", {key: np.array(values) for key, values in played.items()}, {}, metadata))
    return str(path)


def policy_artifact(folder: Path) -> str:
    torch.manual_seed(0)
    net = DeterministicPolicy(1, 1, [8])
    return artifact(folder, {"policy": (net, net.exported(""))})


def dynamics_artifact(folder: Path, seed: int = 0) -> str:
    """A (very poor) model."""
    torch.manual_seed(seed)
    net = EnsembleDynamics(1, 1, 3, 2, [8])
    path = f"{type(net).__module__}.{type(net).__name__}"
    return artifact(folder, {"dynamics": (net, Exported(path, net.init_args(), ""))})
