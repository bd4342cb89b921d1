"""Affine couplings: half of a row moves the other half, and the way back is as cheap as the way there."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_lightning.nn.mlp import linear_stack


class AffineCoupling(nn.Module):
    """Stretches and shifts one half of a row by what a network makes of the other.

    One network gives both: its last layer starts at zero, and so the coupling at the identity. The log of the stretch
    lies within a learned bound.

    Args:
        dim: Width of a row.
        hidden_dims: Hidden sizes of the network.
        flip: Move the first half instead of the second.
    """

    def __init__(self, dim: int, hidden_dims: list[int], flip: bool) -> None:
        super().__init__()
        first = dim // 2
        self.sizes, self.flip = [first, dim - first], flip
        fixed, moved = self.sizes[::-1] if flip else self.sizes
        self.net = linear_stack(fixed, hidden_dims, "relu", False)
        self.head = nn.Linear(hidden_dims[-1], 2 * moved)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.bound = nn.Parameter(torch.ones(moved))

    def halves(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """What the network is given, and what is moved."""
        a, b = z.split(self.sizes, -1)
        return (b, a) if self.flip else (a, b)

    def join(self, fixed: Tensor, moved: Tensor) -> Tensor:
        return torch.cat((moved, fixed) if self.flip else (fixed, moved), -1)

    def affine(self, fixed: Tensor) -> tuple[Tensor, Tensor]:
        """Log of the stretch, and the shift."""
        raw, shift = self.head(self.net(fixed)).chunk(2, -1)
        return self.bound * raw.tanh(), shift

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:  # [B, D] -> [B, D], log-determinant [B]
        fixed, moved = self.halves(z)
        stretch, shift = self.affine(fixed)
        return self.join(fixed, torch.addcmul(shift, moved, stretch.exp())), stretch.sum(-1)

    def inverse(self, z: Tensor) -> Tensor:
        fixed, moved = self.halves(z)
        stretch, shift = self.affine(fixed)
        return self.join(fixed, (moved - shift) * (-stretch).exp())

    def move_(self, z: Tensor, log_det: Tensor) -> None:
        """As `forward`, for scores alone: rows lie in columns, [D, B], and move in place, which is half as dear.

        `log_det` [B] is added to; nothing can be derived.
        """
        first, second = z.split(self.sizes)
        features, moved = (second, first) if self.flip else (first, second)
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                features = torch.addmm(layer.bias[:, None], layer.weight, features).relu_()
        raw, shift = torch.addmm(self.head.bias[:, None], self.head.weight, features).chunk(2)
        stretch = raw.tanh_().mul_(self.bound[:, None])
        log_det += stretch.sum(0)
        moved.mul_(stretch.exp_()).add_(shift)
