"""What a checkpoint costs with a million Hopper rows in the buffer: bytes written, stall, and time to load.

python benchmarks/saving.py
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import numpy as np
import torch

from rl_lightning.replay.ring import RingBuffer
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps

ROWS, NEW = 1_000_000, 10_000
SPEC = EnvSpec("Hopper-v5", (11,), action_shape=(3,))


def steps(count: int, generator: np.random.Generator) -> Steps:
    def draw(*shape: int) -> np.ndarray:
        return generator.standard_normal((count, 1, *shape), dtype=np.float32)

    flags = np.zeros((count, 1), bool)
    return Steps(draw(11), draw(3), draw(), flags, flags, flags, draw(11)[0], [])


def disk(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def main() -> None:
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=os.environ.get("RL_BENCH_DIR")) as place:
        folder = Path(place) / "replay"
        buffer, store = RingBuffer(SPEC, 1, ROWS), SegmentStore(folder)
        for _ in range(ROWS // 50_000):
            buffer.add(steps(50_000, generator))
        state = buffer.save(store)
        whole, stalls, shares = disk(folder), [], []
        for _ in range(3):
            buffer.add(steps(NEW, generator))
            before, began = disk(folder), time.perf_counter()
            state = buffer.save(store)
            stalls.append(time.perf_counter() - began)
            shares.append((disk(folder) - before) / whole)
        loads = []
        for _ in range(3):
            fresh, began = RingBuffer(SPEC, 1, ROWS), time.perf_counter()
            fresh.load(state, SegmentStore(folder))
            loads.append(time.perf_counter() - began)
            assert torch.equal(fresh.rows, buffer.rows)
    print(f"buffer of {ROWS:,} rows: {whole / 2**20:.0f} MB")
    print(f"written after {NEW:,} new rows: {100 * np.median(shares):.1f} % of it (bar 10 %)")
    print(f"stall: {np.median(stalls):.3f} s (bar 0.5 s)    load: {np.median(loads):.2f} s (bar 10 s)")


if __name__ == "__main__":
    main()
