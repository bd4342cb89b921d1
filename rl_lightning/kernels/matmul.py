"""Whether oneDNN takes all products of full precision of a CPU, in place of what torch chose.

Torch gives them to MKL, which on some CPUs (AMD's with AVX-512) leaves half of a core unused. Its one switch towards
oneDNN, `set_float32_matmul_precision("medium")`, permits bfloat16 as well, and a CPU with units for it takes that. So
speed and error are looked at, at sizes of the run's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

EXACT = 2e-6  # of the largest number: what full precision may be off by
WORTH = 1.1  # times as fast
LARGE = 1 << 22  # multiplications of a product from which there is anything to gain
ROUNDS, REPEATS = 5, 3

Size = tuple[int, int, int]  # M, K, N: [M, K] @ [K, N]


class MatmulProbe(NamedTuple):
    """What oneDNN is worth here: times as fast, and how far off."""

    speedup: float
    error: float

    @property
    def exact(self) -> bool:
        return self.error < EXACT

    @property
    def pays(self) -> bool:
        return self.exact and self.speedup >= WORTH


@contextmanager
def onednn_products() -> Iterator[None]:
    """Inside, products of full precision on the CPU are oneDNN's where it takes them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def product_sizes(module: nn.Module, rows: int, most: int = 3) -> list[Size]:
    """The largest products of a pass of so many rows through a module's linear layers; none if all are small."""
    weights = {tuple(p.shape[-2:]) for p in module.parameters() if p.ndim in (2, 3)}
    sizes = [(rows, int(k), int(n)) for n, k in weights if rows * k * n >= LARGE]
    return sorted(sizes, key=lambda size: (-size[1] * size[2], size))[:most]


def probe(sizes: Sequence[Size]) -> MatmulProbe:
    """Looks at a linear layer and the gradient of its weight, of each size; milliseconds."""
    generator = torch.Generator().manual_seed(0)
    cases = [_case(size, generator) for size in sizes]
    with torch.no_grad(), onednn_products():
        error = max(_error(*case) for case in cases)
    before, after = [], []
    for _ in range(ROUNDS):  # in turn: whatever else the machine does meets both
        before.append(_seconds(cases))
        with onednn_products():
            after.append(_seconds(cases))
    return MatmulProbe(min(before) / min(after), error)


def _case(size: Size, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    m, k, n = size
    return tuple(torch.randn(shape, generator=generator) for shape in ((m, k), (n, k), (m, n)))  # type: ignore[return-value]


def _error(x: Tensor, weight: Tensor, grad: Tensor) -> float:
    def off(computed: Tensor, exact: Tensor) -> float:
        return float((computed.double() - exact).abs().max() / exact.abs().max())

    forward = off(nn.functional.linear(x, weight), x.double() @ weight.double().t())
    return max(forward, off(grad.t() @ x, grad.double().t() @ x.double()))


@torch.no_grad()
def _seconds(cases: Sequence[tuple[Tensor, Tensor, Tensor]]) -> float:
    seconds = 0.0
    for x, weight, grad in cases:
        _pass(x, weight, grad)
        start = time.perf_counter()
        for _ in range(REPEATS):
            _pass(x, weight, grad)
        seconds += time.perf_counter() - start
    return seconds


def _pass(x: Tensor, weight: Tensor, grad: Tensor) -> None:
    nn.functional.linear(x, weight)
    torch.mm(grad.t(), x)
