"""Flow matching (Lipman et al. 2023): learning the velocity that carries noise to rows, and following it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

VelocityFn = Callable[[Tensor, Tensor], Tensor]  # rows [..., A], times [..., 1] -> velocity [..., A]


def straight_path(noise: Tensor, rows: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """Where the straight line from noise (t = 0) to rows (t = 1) is, and its velocity.  [..., A], [..., 1]"""
    assert noise.shape == rows.shape, (noise.shape, rows.shape)
    return (1.0 - t) * noise + t * rows, rows - noise


def euler_flow(velocity: VelocityFn, noise: Tensor, steps: int) -> Tensor:
    """Noise carried from time 0 to 1 in equal steps; the velocity is asked for where each step begins."""
    x = noise
    for i in range(steps):
        x = x + velocity(x, torch.full_like(x[..., :1], i / steps)) / steps
    return x
