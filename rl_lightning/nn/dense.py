"""Layers of world models: linear, norm, activation; the linear part can be split by what it sees."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.kernels.rms_norm import rms_norm
from rl_lightning.nn.init import check_choice, make_activation

NORMS = ("layer", "none", "rms")
EPS = 1e-3  # of every norm here, as Dreamer has it


class RMSNormed(nn.Module):
    """Divided by the root of the mean square, times a weight."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, EPS)


def make_norm(norm: str, width: int) -> nn.Module:
    check_choice("norm", norm, NORMS)
    if norm == "none":
        return nn.Identity()
    return nn.LayerNorm(width, EPS) if norm == "layer" else RMSNormed(width)


class Dense(nn.Module):
    """A layer whose input comes in parts: the projections of some can be made for all time steps before an unroll.

    Args:
        widths: Width of each part of the input.
        out: Width of the output.
        norm: layer, rms or none.
        activation: Name of the non-linearity.
    """

    def __init__(self, widths: Sequence[int], out: int, norm: str = "none", activation: str = "silu") -> None:
        super().__init__()
        self.widths, self.out_dim = list(widths), out
        linear = nn.Linear(sum(widths), out, bias=norm == "none")
        nn.init.xavier_uniform_(linear.weight)
        self.weight = linear.weight
        self.bias = nn.Parameter(torch.zeros(out)) if norm == "none" else None
        self.norm, self.activation = make_norm(norm, out), make_activation(activation)

    def parts(self) -> tuple[Tensor, ...]:
        """The weight of each part of the input; split once, before an unroll."""
        return self.weight.split(self.widths, 1)

    def finish(self, projected: Tensor) -> Tensor:
        """Norm and activation of a sum of projections, one of which holds the bias."""
        return self.activation(self.norm(projected))

    def forward(self, *parts: Tensor) -> Tensor:
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return self.finish(F.linear(whole, self.weight, self.bias))


class DenseStack(nn.Module):
    """Dense layers, and a linear one at the end if `out` is given.

    Args:
        in_dim: Width of the input.
        hidden_dims: Width of each layer.
        out: Width of the output; null: the last layer's.
        norm: layer, rms or none.
        activation: Name of the non-linearity.
        zero_init_last: The last layer starts at zero, so that the first outputs are exactly 0.
    """

    def __init__(
        self,
        in_dim: int,
        hidden_dims: Sequence[int],
        out: int | None = None,
        norm: str = "none",
        activation: str = "silu",
        zero_init_last: bool = False,
    ) -> None:
        super().__init__()
        sizes = [in_dim, *hidden_dims]
        self.layers = nn.ModuleList(
            Dense([a], b, norm, activation) for a, b in zip(sizes, hidden_dims, strict=False)
        )
        self.out_dim = sizes[-1] if out is None else out
        self.top: nn.Module = nn.Identity() if out is None else nn.Linear(sizes[-1], out)
        if isinstance(self.top, nn.Linear):
            nn.init.zeros_(self.top.weight) if zero_init_last else nn.init.xavier_uniform_(self.top.weight)
            nn.init.zeros_(self.top.bias)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.top(x)


class BlockLinear(nn.Module):
    """A block-diagonal linear layer: `blocks` groups of inputs and outputs that do not see each other.

    Args:
        in_dim: Width of the input, a multiple of `blocks`.
        out: Width of the output, a multiple of `blocks`.
        blocks: Number of groups.
        bias: Add a bias.
    """

    def __init__(self, in_dim: int, out: int, blocks: int, bias: bool = True) -> None:
        super().__init__()
        self.blocks = blocks
        limit = (6.0 / (in_dim // blocks + out // blocks)) ** 0.5
        weight = torch.empty(blocks, in_dim // blocks, out // blocks).uniform_(-limit, limit)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(torch.zeros(out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:  # [B, I] -> [B, O]
        grouped = x.unflatten(-1, (self.blocks, -1)).transpose(0, 1)
        y = torch.bmm(grouped, self.weight).transpose(0, 1).flatten(1)
        return y if self.bias is None else y + self.bias
