"""The lowest of several critics, differentiable in the action alone: what an actor climbs.

An actor's loss looks through frozen critics, and for each row only through the one that is lowest there. So the way
back goes through one member per row instead of all: half of the products for twin critics, with the same gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Lowest(torch.autograd.Function):
    """min over E of MLPs with ReLU, given as (weight [E, I, O], bias [E, 1, O]) pairs.  [B, I] -> [B]"""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, *params: Tensor) -> Tensor:  # type: ignore[override]
        weights, biases = params[::2], params[1::2]
        layers: list[Tensor] = []
        hidden = inputs.expand(len(weights[0]), -1, -1)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = torch.baddbmm(bias, hidden, weight).relu_()
            layers.append(hidden)
        value, member = ((hidden * weights[-1].mT).sum(-1) + biases[-1][..., 0]).min(0)
        ctx.save_for_backward(member, *layers, *weights)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        member, *rest = ctx.saved_tensors
        depth = len(rest) // 2
        layers, weights = rest[:depth], rest[depth:]
        found = slope.new_empty(len(slope), weights[0].shape[1])
        for e in range(len(weights[0])):
            rows = (member == e).nonzero()[:, 0]
            back = slope[rows, None] * weights[-1][e].mT
            for layer, weight in zip(reversed(layers), reversed(weights[:-1]), strict=True):
                back = (back * (layer[e].index_select(0, rows) > 0)) @ weight[e].mT
            found[rows] = back
        return (found, *(None for _ in range(2 * len(weights))))
