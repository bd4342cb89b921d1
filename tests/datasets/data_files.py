"""Small data sets for tests: rows whose numbers tell where they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np


def make_rows(
    lengths: list[int], terminal: list[bool], obs_dim: int = 3, action_dim: int = 2
) -> dict[str, np.ndarray]:
    """Episodes of given lengths. Observation t of episode e begins with (e, t): the next one must be (e, t + 1)."""
    rng = np.random.default_rng(0)
    rows = sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    time = np.concatenate([np.arange(n) for n in lengths])
    obs = np.zeros((rows, obs_dim), np.float32)
    obs[:, 0], obs[:, 1] = episode, time
    following = obs.copy()
    following[:, 1] += 1
    last = np.cumsum(lengths) - 1
    terminals, timeouts = np.zeros(rows, bool), np.zeros(rows, bool)
    terminals[last] = terminal
    timeouts[last] = ~np.asarray(terminal)
    return {
        "observations": obs,
        "actions": rng.uniform(-1, 1, (rows, action_dim)).astype(np.float32),
        "rewards": rng.normal(size=rows).astype(np.float32),
        "next_observations": following,
        "terminals": terminals,
        "timeouts": timeouts,
    }


def write(path: Path, arrays: dict[str, Any], metadata: dict[str, Any] | None = None, **options: Any) -> Path:
    """A file as others write it, not by our writer."""
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file.create_dataset(key, data=array, **options)
        for key, value in (metadata or {}).items():
            file.create_dataset(f"metadata/{key}", data=value)
    return path
