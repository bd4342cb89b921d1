"""Layers of TD-MPC2: linear, layer norm, activation; a latent of simplices; and an ensemble of such networks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.networks.ensemble import EnsembleLinear, EnsembleNorm

START = 0.02  # standard deviation of the first weights


def sim_norm(latent: Tensor, group: int) -> Tensor:
    """Every `group` numbers become weights that sum to 1.  [..., Z] -> [..., Z]"""
    return latent.unflatten(-1, (-1, group)).softmax(-1).flatten(-2)


def check_groups(latent: int, group: int) -> None:
    if group < 1 or latent % group:
        raise ConfigError(
            f"a latent of {latent} does not fall into groups of {group}; choose a multiple of model.simnorm"
        )


class NormedMLP(nn.Module):
    """Hidden layers of linear, layer norm and Mish; the last is linear, or normed and cut into simplices.

    Args:
        in_dim: Width of the input.
        hidden: Width of each hidden layer.
        out_dim: Width of the output.
        simplex: Size of the output's groups; 0: a plain linear output.
        zero_last: The last layer starts at zero.
    """

    def __init__(
        self, in_dim: int, hidden: list[int], out_dim: int, simplex: int = 0, zero_last: bool = False
    ) -> None:
        super().__init__()
        sizes = [in_dim, *hidden, out_dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in (sizes[1:] if simplex else hidden))
        self.simplex = simplex
        for layer in self.layers:
            nn.init.trunc_normal_(layer.weight, std=START)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if zero_last:
            nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor) -> Tensor:  # [..., I] -> [..., O]
        inplace = not torch.is_grad_enabled()
        last = len(self.layers) - 1
        for k, layer in enumerate(self.layers):
            inputs = layer(inputs)
            if k < last:
                inputs = F.mish(self.norms[k](inputs), inplace=inplace)
        return sim_norm(self.norms[last](inputs), self.simplex) if self.simplex else inputs


class NormedEnsemble(nn.Module):
    """E networks like NormedMLP with batched weights; dropout after the first linear layer.

    Args:
        members: Networks.
        in_dim: Width of the input.
        hidden: Width of each hidden layer.
        out_dim: Width of each output; the last layer starts at zero.
        dropout: Share of the first layer's outputs that is left out while `dropping`.
    """

    def __init__(self, members: int, in_dim: int, hidden: list[int], out_dim: int, dropout: float) -> None:
        super().__init__()
        sizes = [in_dim, *hidden, out_dim]
        self.members, self.dropout = members, dropout
        self.layers = nn.ModuleList(EnsembleLinear(members, a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(EnsembleNorm(members, width) for width in hidden)
        for layer in self.layers:
            nn.init.trunc_normal_(layer.weight, std=START)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor, which: Tensor | None = None, dropping: bool = False) -> Tensor:
        """Outputs of all members, or of those named.  [B, I] -> [E, B, O]"""
        inplace = not torch.is_grad_enabled()
        if which is not None and len(which) == self.members:
            which = None  # all of them, in whatever order
        count = self.members if which is None else len(which)
        inputs = inputs.expand(count, -1, -1)
        last = len(self.layers) - 1
        for k, layer in enumerate(self.layers):
            weight, bias = _pick(layer.weight, which), _pick(layer.bias, which)  # type: ignore[arg-type]
            inputs = torch.baddbmm(bias, inputs, weight)
            if k == last:
                break
            if k == 0 and dropping:
                inputs = F.dropout(inputs, self.dropout)
            norm = self.norms[k]
            scale, shift = _pick(norm.weight, which), _pick(norm.bias, which)  # type: ignore[arg-type]
            inputs = torch.addcmul(shift, F.layer_norm(inputs, inputs.shape[-1:]), scale)
            inputs = F.mish(inputs, inplace=inplace)
        return inputs


def _pick(weight: Tensor, which: Tensor | None) -> Tensor:
    return weight if which is None else weight[which]
