"""A fully connected ReLU network and its gradients, written out.

For networks of a few layers autograd's bookkeeping costs as much as several of their matrix products; these do the
products and little else. There is a ReLU after each layer but the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

FEW = 32  # rows up to which a product into a transposed tensor takes five times as long as one that is copied there


class Layer(NamedTuple):
    """A layer's tensors in the views that products take; making a view costs as much as adding a bias."""

    weight: Tensor  # [I, O]
    bias: Tensor  # [O]
    back: Tensor  # [O, I]
    column: Tensor | None  # [I] of a layer with one output: a product with one column is slower


Layers = Sequence[Layer]


def layer(weight: Tensor, bias: Tensor) -> Layer:
    return Layer(weight, bias, weight.t(), weight[:, 0] if weight.shape[1] == 1 else None)


def relu_forward(layers: Layers, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The output, and what entered each layer.  [B, I] -> [B, O]"""
    entered = [x]
    for weight, bias, _, _ in layers[:-1]:
        entered.append(x := torch.addmm(bias, x, weight).relu_())
    weight, bias, _, column = layers[-1]
    if column is not None:
        return torch.addmv(bias, x, column).unsqueeze(1), entered
    return torch.addmm(bias, x, weight), entered


def _product_into(found: Tensor, left: Tensor, right: Tensor) -> None:
    if len(found) >= FEW or found.is_contiguous():
        torch.mm(left, right, out=found)
    else:
        found.copy_(torch.mm(left, right))


def relu_backward(
    layers: Layers, entered: Sequence[Tensor], by_out: Tensor, into: Layers | None = None
) -> Tensor:
    """From the gradient by the output [B, O] to that by what the first layer gives, from where one product with its
    weight leads on to the input. Gradients of weights and biases are written `into` layers of their shapes."""
    by_given = by_out
    for k in reversed(range(len(layers))):
        if into is not None:
            _product_into(into[k].weight, entered[k].t(), by_given)
            torch.sum(by_given, 0, out=into[k].bias)
        if k > 0:
            _, _, back, column = layers[k]
            by_given = torch.mm(by_given, back) if column is None else by_given * column
            # Where a ReLU gave nothing, nothing comes back; in place, the product is not needed again.
            torch.ops.aten.threshold_backward.grad_input(by_given, entered[k], 0, grad_input=by_given)
    return by_given
