"""Layers of TD-MPC2: linear, layer norm, activation; a latent of simplices; and an ensemble of such networks."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.kernels.activations import mish, sim_norm, sparse_dropout
from rl_lightning.nn.ensemble import EnsembleLinear, EnsembleNorm

START = 0.02  # standard deviation of the first weights


def check_groups(latent: int, group: int) -> None:
    if group < 1 or latent % group:
        raise ConfigError(
            f"a latent of {latent} does not fall into groups of {group}; choose a multiple of model.simnorm_dim"
        )


class NormedMLP(nn.Module):
    """Hidden layers of linear, layer norm and Mish; the last is linear, or normed and cut into simplices.

    Args:
        in_dim: Width of the input.
        hidden_dims: Width of each hidden layer.
        out_dim: Width of the output.
        simnorm_dim: Size of the output's groups; 0: a plain linear output.
        zero_init_last: The last layer starts at zero.
    """

    def __init__(
        self,
        in_dim: int,
        hidden_dims: list[int],
        out_dim: int,
        simnorm_dim: int = 0,
        zero_init_last: bool = False,
    ) -> None:
        super().__init__()
        sizes = [in_dim, *hidden_dims, out_dim]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(
            nn.LayerNorm(width) for width in (sizes[1:] if simnorm_dim else hidden_dims)
        )
        self.simnorm_dim = simnorm_dim
        for layer in self.layers:
            nn.init.trunc_normal_(layer.weight, std=START)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if zero_init_last:
            nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor) -> Tensor:  # [..., I] -> [..., O]
        return self._rest(self.layers[0](inputs))

    def forward_shared(self, shared: Tensor, own: Tensor) -> Tensor:
        """For rows that begin alike: what K rows share is multiplied once.  [N, S], [N, K, T] -> [N K, O]"""
        layer, width = self.layers[0], shared.shape[-1]
        weight: Tensor = layer.weight  # type: ignore[assignment]
        common = F.linear(shared, weight[:, :width], layer.bias)  # type: ignore[arg-type]
        return self._rest((F.linear(own, weight[:, width:]) + common.unsqueeze(1)).flatten(0, 1))

    def _rest(self, inputs: Tensor) -> Tensor:
        last = len(self.layers) - 1
        for k in range(last):
            inputs = self.layers[k + 1](mish(self.norms[k](inputs)))
        return sim_norm(self.norms[last](inputs), self.simnorm_dim) if self.simnorm_dim else inputs


class NormedEnsemble(nn.Module):
    """E networks like NormedMLP with batched weights; dropout after the first linear layer.

    Args:
        ensemble_size: Networks.
        in_dim: Width of the input.
        hidden_dims: Width of each hidden layer.
        out_dim: Width of each output; the last layer starts at zero.
        dropout: Fraction of the first layer's outputs that is left out while `dropping`.
    """

    def __init__(
        self, ensemble_size: int, in_dim: int, hidden_dims: list[int], out_dim: int, dropout: float
    ) -> None:
        super().__init__()
        sizes = [in_dim, *hidden_dims, out_dim]
        self.ensemble_size, self.dropout = ensemble_size, dropout
        self.layers = nn.ModuleList(EnsembleLinear(ensemble_size, a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(EnsembleNorm(ensemble_size, width) for width in hidden_dims)
        for layer in self.layers:
            nn.init.trunc_normal_(layer.weight, std=START)  # type: ignore[arg-type]
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        nn.init.zeros_(self.layers[-1].weight)  # type: ignore[arg-type]

    def forward(self, inputs: Tensor, which: Tensor | None = None, dropping: bool = False) -> Tensor:
        """Outputs of all members, or of those named.  [B, I] -> [E, B, O]"""
        if which is not None and len(which) == self.ensemble_size:
            which = None  # all of them, in whatever order
        walk = self.forward_sequential if inputs.device.type == "cpu" else self.forward_batched
        return walk(inputs, which, dropping)

    def forward_batched(self, inputs: Tensor, which: Tensor | None, dropping: bool) -> Tensor:
        """All members in batched products, as a GPU likes them."""
        count = self.ensemble_size if which is None else len(which)
        inputs = inputs.expand(count, -1, -1)
        last = len(self.layers) - 1
        for k, layer in enumerate(self.layers):
            weight, bias = _pick(layer.weight, which), _pick(layer.bias, which)  # type: ignore[arg-type]
            inputs = torch.baddbmm(bias, inputs, weight)
            if k == last:
                break
            if k == 0 and dropping:
                inputs = sparse_dropout(inputs, self.dropout)
            norm = self.norms[k]
            scale, shift = _pick(norm.weight, which), _pick(norm.bias, which)  # type: ignore[arg-type]
            inputs = torch.addcmul(shift, F.layer_norm(inputs, inputs.shape[-1:]), scale)
            inputs = mish(inputs)
        return inputs

    def forward_sequential(self, inputs: Tensor, which: Tensor | None, dropping: bool) -> Tensor:
        """Member after member, whose rows then stay in a core's cache."""
        weights = [(layer.weight.unbind(), layer.bias.unbind()) for layer in self.layers]  # type: ignore[operator]
        norms = [(norm.weight.unbind(), norm.bias.unbind()) for norm in self.norms]  # type: ignore[operator]
        outputs = []
        for member in range(self.ensemble_size) if which is None else which.tolist():
            rows = inputs
            for k, (weight, bias) in enumerate(weights):
                rows = torch.addmm(bias[member], rows, weight[member])
                if k == 0 and dropping:
                    rows = sparse_dropout(rows, self.dropout)
                if k < len(norms):
                    scale, shift = norms[k][0][member][0], norms[k][1][member][0]
                    rows = mish(F.layer_norm(rows, rows.shape[-1:], scale, shift))
            outputs.append(rows)
        return torch.stack(outputs)


def _pick(weight: Tensor, which: Tensor | None) -> Tensor:
    return weight if which is None else weight[which]
