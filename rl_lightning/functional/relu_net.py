"""A fully connected ReLU network and its gradients, written out.

For networks of a few layers autograd's bookkeeping costs as much as several of their matrix products; these do the
products and little else. Layers are (weight [I, O], bias [O]), with a ReLU after each but the last.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

FEW = 32  # rows up to which a product into a transposed tensor takes five times as long as one that is copied there
Layers = Sequence[tuple[Tensor, Tensor]]


def relu_forward(layers: Layers, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The output, and what entered each layer.  [B, I] -> [B, O]"""
    entered = [x]
    for weight, bias in layers[:-1]:
        entered.append(torch.addmm(bias, entered[-1], weight).relu_())
    weight, bias = layers[-1]
    if weight.shape[1] == 1:  # a product with one column is slower
        return torch.addmv(bias, entered[-1], weight[:, 0]).unsqueeze(1), entered
    return torch.addmm(bias, entered[-1], weight), entered


def _product_into(found: Tensor, left: Tensor, right: Tensor) -> None:
    if found.is_contiguous() or len(found) >= FEW:
        torch.mm(left, right, out=found)
    else:
        found.copy_(torch.mm(left, right))


def relu_backward(
    layers: Layers, entered: Sequence[Tensor], by_out: Tensor, into: Layers | None = None
) -> Tensor:
    """From the gradient by the output [B, O] to that by what the first layer gives, from where one product with its
    weight leads on to the input. Gradients of weights and biases are written `into` tensors of their shapes."""
    by_given = by_out
    for k in reversed(range(len(layers))):
        if into is not None:
            _product_into(into[k][0], entered[k].t(), by_given)
            torch.sum(by_given, 0, out=into[k][1])
        if k > 0:
            by_given = torch.mm(by_given, layers[k][0].t())
            # Where a ReLU gave nothing, nothing comes back; in place, the product is not needed again.
            torch.ops.aten.threshold_backward.grad_input(by_given, entered[k], 0, grad_input=by_given)
    return by_given
