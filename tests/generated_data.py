"""Rows of the right shapes in place of data sets that are not on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rl_lightning.datasets.hdf5 import write_hdf5
from rl_lightning.datasets.places import locate
from rl_lightning.datasets.raw import Raw
from rl_lightning.datasets.recipes import LOCAL_ENVS
from rl_lightning.envs.make import EnvConfig, probe_spec

ROWS, EPISODE = 240, 20


def env_of(name: str) -> str:
    """local/hopper-medium, d4rl/hopper-medium-v2 -> Hopper-v5"""
    return LOCAL_ENVS[name.split("/")[1].split("-")[0]]


def write_rows(name: str, seed: int = 0) -> Path:
    """A file for the data set `name` in the data folder, if it is not there yet."""
    path = locate(name, missing_ok=True).path.with_suffix(".hdf5")
    if path.exists():
        return path
    spec = probe_spec(EnvConfig(id=env_of(name)))
    generator = np.random.default_rng(seed)
    obs = generator.normal(size=(ROWS, *spec.obs_shape)).astype(np.float32)
    arrays = {
        "observations": obs,
        "actions": generator.uniform(-1, 1, (ROWS, *spec.action_shape)).astype(np.float32),
        "next_observations": obs + generator.normal(scale=0.1, size=obs.shape).astype(np.float32),
        "rewards": generator.normal(size=ROWS).astype(np.float32),
        "terminals": np.zeros(ROWS, bool),
        "timeouts": np.arange(1, ROWS + 1) % EPISODE == 0,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"env_id": env_of(name), "ref_min": 0.0, "ref_max": 100.0}
    write_hdf5(path, Raw(str(path), arrays, {}, metadata))
    return path
