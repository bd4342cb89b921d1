"""One million rows, written and read: `python loading.py`.

Compares with h5py reading the same arrays and nothing else, which no reader can be faster than, and with a file that is
compressed as D4RL's are.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import machine
import numpy as np

from rl_lightning.datasets.formats.hdf5 import write_hdf5
from rl_lightning.datasets.formats.raw import Raw
from rl_lightning.datasets.load import load_dataset, read_header

ROWS, OBS, ACTION, STEPS = 1_000_000, 17, 6, 1000


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((ROWS + 1, OBS), dtype=np.float32)
    ends = np.arange(ROWS) % STEPS == STEPS - 1
    return {
        "observations": obs[:-1],
        "actions": rng.uniform(-1, 1, (ROWS, ACTION)).astype(np.float32),
        "rewards": rng.standard_normal(ROWS, dtype=np.float32),
        "next_observations": obs[1:],
        "terminals": np.zeros(ROWS, bool),
        "timeouts": ends,
    }


def clock(name: str, work: Callable[[], Any], times: int = 3) -> None:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    print(f"{name:<44} {min(taken):6.2f} s")


def plain(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {key: file[key][()] for key in file if isinstance(file[key], h5py.Dataset)}


def main() -> None:
    print("\n".join([*machine.describe(1), f"Load before: {machine.load():.1f}", ""]))
    with tempfile.TemporaryDirectory() as folder:
        path, packed = Path(folder) / "ours.hdf5", Path(folder) / "gzip.hdf5"
        arrays = rows()
        clock(
            "write a million rows",
            lambda: write_hdf5(path, Raw("", arrays, {}, {"env_id": "HalfCheetah-v5"})),
            1,
        )
        print(f"{'size':<44} {os.path.getsize(path) / 1e6:6.0f} MB")
        clock("peek", lambda: read_header(str(path)))
        clock("h5py alone", lambda: plain(path))
        clock("load_dataset (checked, hashed, by episode)", lambda: load_dataset(str(path)))
        with h5py.File(packed, "w") as file:
            for key, array in arrays.items():
                if key != "next_observations":
                    file.create_dataset(key, data=array, compression="gzip", compression_opts=4)
        clock("h5py alone, gzip", lambda: plain(packed), 1)
        clock("load_dataset, gzip, no next observations", lambda: load_dataset(str(packed)), 1)


if __name__ == "__main__":
    main()
