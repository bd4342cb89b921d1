"""Members of one architecture as batched weights: one matrix product serves all of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class EnsembleLinear(nn.Module):
    """E linear layers at once; each member starts as nn.Linear does."""

    def __init__(self, ensemble_size: int, in_dim: int, out_dim: int) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(in_dim)
        self.weight = nn.Parameter(torch.empty(ensemble_size, in_dim, out_dim).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(ensemble_size, 1, out_dim).uniform_(-bound, bound))

    def forward(self, inputs: Tensor) -> Tensor:  # [E, B, I] or, the same for all, [B, I] -> [E, B, O]
        if inputs.ndim == 2:
            inputs = inputs.expand(len(self.weight), -1, -1)
        if self.weight.shape[-1] == 1:  # a matrix product with one column is slower than a sum
            return (inputs * self.weight.transpose(-1, -2)).sum(-1, keepdim=True) + self.bias
        return torch.baddbmm(self.bias, inputs, self.weight)


class EnsembleNorm(nn.Module):
    """Layer norm with each member's own scale and shift."""

    def __init__(self, ensemble_size: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ensemble_size, 1, dim))
        self.bias = nn.Parameter(torch.zeros(ensemble_size, 1, dim))

    def forward(self, inputs: Tensor) -> Tensor:  # [E, B, D] -> [E, B, D]
        normed = nn.functional.layer_norm(inputs, inputs.shape[-1:])
        return torch.addcmul(self.bias, normed, self.weight)
