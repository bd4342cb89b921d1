"""Ensembles of ReLU networks with layer norm, as one node of autograd's graph, beside their plain torch twin.

As mlp.py does it for networks without norm: member after member by oneDNN's products, parameters that nobody asks for
without a gradient, a minimum over members sending each row back through one of them. ReBRAC's update, three layers of
256 and 1024 rows, takes 44 ms of a shared core through torch and 35 ms here. Parameters are, for each hidden layer,
weight [E, I, O], bias, scale and shift [E, 1, O]; then the last layer's weight and bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.kernels.choice import asked_for
from rl_lightning.kernels.mlp import SPARSE, relu_slope_, stacked, weight_grad
from rl_lightning.kernels.product import affine, product

EPS = 1e-5  # of torch's layer norm


class Hidden(NamedTuple):
    """What a hidden layer's backward pass needs of its forward one."""

    entered: Tensor
    inner: Tensor  # what the norm saw
    mean: Tensor
    rstd: Tensor
    out: Tensor


def normed_twin(x: Tensor, params: Sequence[Tensor], norm_last: bool) -> Tensor:
    """The same in torch's own operations.  [B, I] -> [E, B, O]"""
    x = x.expand(len(params[0]), -1, -1)
    for k in range(0, len(params) - 2, 4):
        weight, bias, scale, shift = params[k : k + 4]
        x = torch.baddbmm(bias, x, weight)
        x = x.relu() if norm_last else x
        x = torch.addcmul(shift, torch.nn.functional.layer_norm(x, x.shape[-1:]), scale)
        x = x if norm_last else x.relu()
    return torch.baddbmm(params[-1], x, params[-2])


def _members(params: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """The parameters of each member as views, weights in nn.Linear's layout."""
    weights = {*range(0, len(params) - 2, 4), len(params) - 2}
    views = [
        p.transpose(1, 2).unbind(0) if k in weights else p.squeeze(1).unbind(0) for k, p in enumerate(params)
    ]
    return list(zip(*views, strict=True))


def _forward(x: Tensor, member: Sequence[Tensor], norm_last: bool) -> tuple[Tensor, list[Hidden]]:
    """The output, and what the backward pass needs of each hidden layer."""
    saved = []
    for k in range(0, len(member) - 2, 4):
        weight, bias, scale, shift = member[k : k + 4]
        inner = affine(x, weight, bias)
        if norm_last:
            inner = torch.relu_(inner)
        out, mean, rstd = torch.native_layer_norm(inner, inner.shape[-1:], scale, shift, EPS)
        out = out if norm_last else torch.relu_(out)
        saved.append(Hidden(x, inner, mean, rstd, out))
        x = out
    return affine(x, member[-2], member[-1]), saved


def _backward(
    member: Sequence[Tensor], saved: Sequence[Hidden], grad: Tensor, norm_last: bool, wanted: bool
) -> tuple[Tensor, list[Tensor | None]]:
    """From the gradient by the output to that by the first product, and to those of the parameters if `wanted`."""
    grads: list[Tensor | None] = [None] * len(member)
    if wanted:
        grads[-2:] = weight_grad(grad, saved[-1].out, member[-2]), grad.sum(0)
    grad = grad * member[-2] if grad.shape[1] == 1 else product(grad, member[-2])
    for layer in reversed(range(len(saved))):
        entered, inner, mean, rstd, out = saved[layer]
        weight, _, scale, shift = member[4 * layer : 4 * layer + 4]
        if not norm_last:
            relu_slope_(grad, out)
        grad, by_scale, by_shift = torch.ops.aten.native_layer_norm_backward(
            grad, inner, inner.shape[-1:], mean, rstd, scale, shift, [True, wanted, wanted]
        )
        if norm_last:
            relu_slope_(grad, inner)
        if wanted:
            grads[4 * layer : 4 * layer + 4] = (
                weight_grad(grad, entered, weight),
                grad.sum(0),
                by_scale,
                by_shift,
            )
        if layer > 0:
            grad = product(grad, weight)
    return grad, grads


def _input_grad(member: Sequence[Tensor], saved: Sequence[Hidden], grad: Tensor, norm_last: bool) -> Tensor:
    """A member's gradient by the rows; a minimum over members leaves most rows of each without one."""
    rows = grad.any(1).nonzero()[:, 0]
    if rows.shape[0] > SPARSE * grad.shape[0]:
        return product(_backward(member, saved, grad, norm_last, False)[0], member[0])
    some = [Hidden(*(part.index_select(0, rows) for part in hidden)) for hidden in saved]
    by_first, _ = _backward(member, some, grad.index_select(0, rows), norm_last, False)
    by_x = grad.new_zeros(grad.shape[0], member[0].shape[1])
    return by_x.index_copy_(0, rows, product(by_first, member[0]))


class _NormedEnsemble(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, norm_last: bool, x: Tensor, *params: Tensor) -> Tensor:
        ctx.members, ctx.norm_last, ctx.count = _members(params), norm_last, len(params)
        passes = [_forward(x, member, norm_last) for member in ctx.members]
        ctx.save_for_backward(*params, *(part for _, saved in passes for hidden in saved for part in hidden))
        return torch.stack([out for out, _ in passes])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        params, inside = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        if torch.is_grad_enabled():  # the gradients are to be derived themselves: through the twin
            tensors = (inside[0], *params)
            wanted = [t for t in tensors if t.requires_grad]
            out = normed_twin(inside[0], params, ctx.norm_last)
            each = iter(torch.autograd.grad(out, wanted, grad, create_graph=True))
            return None, *(next(each) if t.requires_grad else None for t in tensors)
        layers = [Hidden(*inside[k : k + 5]) for k in range(0, len(inside), 5)]
        depth = len(layers) // len(ctx.members)
        saved = [layers[e * depth : (e + 1) * depth] for e in range(len(ctx.members))]
        each_member = list(zip(ctx.members, saved, grad.unbind(0), strict=True))
        if not asked_for(ctx, 1):
            by_rows = [_input_grad(*part, ctx.norm_last) for part in each_member]
            return None, torch.stack(by_rows).sum(0), *[None] * ctx.count
        by_first, by_params = zip(
            *(_backward(*part, ctx.norm_last, True) for part in each_member), strict=True
        )
        weights = {*range(0, ctx.count - 2, 4), ctx.count - 2}
        grads = [stacked(parts, k in weights) for k, parts in enumerate(zip(*by_params, strict=True))]
        if not asked_for(ctx, 0, 1):
            return None, None, *grads
        by_x = torch.stack([product(g, m[0]) for g, m in zip(by_first, ctx.members, strict=True)]).sum(0)
        return None, by_x, *grads


def normed_ensemble(x: Tensor, params: Sequence[Tensor], norm_last: bool) -> Tensor:
    """Members as batched weights, norm behind the ReLU (`norm_last`) or before it.  [B, I] -> [E, B, O]"""
    if torch.is_grad_enabled():
        return _NormedEnsemble.apply(norm_last, x, *params)  # type: ignore[no-untyped-call]
    return torch.stack([_forward(x, member, norm_last)[0] for member in _members(params)])
