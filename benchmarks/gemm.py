"""The rate of matrix products on this machine, which bounds every update: GFLOP/s of 256 x 256 x 256, one thread.

python benchmarks/gemm.py
"""

from __future__ import annotations

import json
import time

import torch


def rate(dtype: torch.dtype, size: int = 256, seconds: float = 1.0) -> float:
    """The best of many short measurements: a product that was interrupted says nothing about the machine."""
    a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        begin = time.perf_counter()
        for _ in range(4):
            torch.mm(a, b)
        best = min(best, (time.perf_counter() - begin) / 4)
    return 2 * size**3 / best / 1e9


def main() -> None:
    torch.set_num_threads(1)
    print(json.dumps({"fp32": rate(torch.float32), "bf16": rate(torch.bfloat16)}))


if __name__ == "__main__":
    main()
