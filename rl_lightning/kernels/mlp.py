"""Fully connected networks, one or an ensemble, as one node of autograd's graph, beside their plain torch twins.

Products are oneDNN's (product.py), parameters that nobody asks for get no gradient, and a minimum over members sends
each row back through one of them. SAC's update on Hopper, 256 x 256 and batch 256, takes 6.8 ms of one core through the
twins and 4.5 ms here; few rows are quicker through the twins, so size decides (`pays`). Parameters are
weights and biases in turns: [O, I] and [O] of nn.Linear; [E, I, O] and [E, 1, O] of an ensemble whose members see the
same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from rl_lightning.kernels.choice import asked_for, is_plain
from rl_lightning.kernels.product import affine, affine_tanh, product

Activation = Callable[[Tensor], Tensor]
FEW_ROWS = 32
ENOUGH = 1 << 23  # multiplications of the largest layer from which a Function in Python pays
ENOUGH_TANH = 1 << 21  # the same where half of the gain is the quicker tanh
SPARSE = 0.8  # fraction of rows with a gradient up to which leaving out the others pays


def relu_slope_(grad: Tensor, out: Tensor) -> None:
    torch.ops.aten.threshold_backward.grad_input(grad, out, 0, grad_input=grad)


def _tanh_slope_(grad: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(grad, out, grad_input=grad)


# What a product gives is not needed again, so activations overwrite it; their slopes are told from their outputs.
SLOPES: dict[Activation, Callable[[Tensor, Tensor], None]] = {
    torch.relu_: relu_slope_,
    torch.tanh_: _tanh_slope_,
}


def mlp_twin(x: Tensor, params: Sequence[Tensor], activation: Activation, last: bool) -> Tensor:
    """Linear layers with an activation after each, or after each but the last, in torch's own operations."""
    for k in range(0, len(params), 2):
        x = linear(x, params[k], params[k + 1])
        x = activation(x) if last or k + 2 < len(params) else x
    return x


def ensemble_twin(x: Tensor, params: Sequence[Tensor], activation: Activation) -> Tensor:
    """The same for an ensemble, without an activation after the last layer.  [B, I] -> [E, B, O]"""
    x = x.expand(len(params[0]), -1, -1)
    for k in range(0, len(params), 2):
        x = torch.baddbmm(params[k + 1], x, params[k])
        x = activation(x) if k + 2 < len(params) else x
    return x


def run_forward(
    x: Tensor, params: Sequence[Tensor], activation: Activation, last: bool
) -> tuple[Tensor, list[Tensor]]:
    """The output, and what enters each layer."""
    entered = []
    for k in range(0, len(params), 2):
        entered.append(x)
        weight, bias = params[k], params[k + 1]
        if not last and k + 2 == len(params):
            x = affine(x, weight, bias)
        else:
            x = (
                affine_tanh(x, weight, bias)
                if activation is torch.tanh_
                else activation(affine(x, weight, bias))
            )
    return x, entered


def run_backward(
    weights: Sequence[Tensor], entered: Sequence[Tensor], grad: Tensor, activation: Activation, wanted: bool
) -> tuple[Tensor, list[Tensor | None]]:
    """From the gradient by the last product to that by the first, and to those of the parameters if `wanted`."""
    grads: list[Tensor | None] = [None] * (2 * len(weights))
    for k in reversed(range(len(weights))):
        if wanted:
            grads[2 * k], grads[2 * k + 1] = weight_grad(grad, entered[k], weights[k]), grad.sum(0)
        if k > 0:
            grad = grad * weights[k] if grad.shape[1] == 1 else product(grad, weights[k])
            SLOPES[activation](grad, entered[k])
    return grad, grads


def weight_grad(grad: Tensor, entered: Tensor, weight: Tensor) -> Tensor:
    """[O, I], in the weight's own order in memory, or where few columns enter with the product's wider side last, which
    is three times as fast."""
    if weight.stride(0) == 1 or entered.shape[1] < grad.shape[1]:
        return product(entered.t(), grad).t()
    return product(grad.t(), entered)


def members(params: Sequence[Tensor]) -> list[tuple[Tensor, ...]]:
    """The parameters of each member as views in nn.Linear's layout, made in few steps: each costs as much as a sum."""
    views = [
        p.transpose(1, 2).unbind(0) if k % 2 == 0 else p.squeeze(1).unbind(0) for k, p in enumerate(params)
    ]
    return list(zip(*views, strict=True))


def input_grad(
    weights: Sequence[Tensor], entered: Sequence[Tensor], grad: Tensor, activation: Activation, by_x: Tensor
) -> None:
    """Adds a member's gradient by the rows; a minimum over members leaves most rows of each without one."""
    rows = grad.any(1).nonzero()[:, 0] if grad.shape[1] > 1 else grad.nonzero()[:, 0]
    if rows.shape[0] > SPARSE * grad.shape[0]:
        by_x.addmm_(run_backward(weights, entered, grad, activation, False)[0], weights[0])
        return
    some = [entered[0], *(value.index_select(0, rows) for value in entered[1:])]
    by_first, _ = run_backward(weights, some, grad.index_select(0, rows), activation, False)
    by_x.index_copy_(0, rows, torch.addmm(by_x.index_select(0, rows), by_first, weights[0]))


def _derivable(
    twin: Callable[..., Tensor], tensors: Sequence[Tensor], grad: Tensor, *rest: Any
) -> list[Tensor | None]:
    """The gradients where they are to be derived themselves (create_graph): through the twin."""
    x, *params = tensors
    wanted = [t for t in tensors if t.requires_grad]
    computed = iter(torch.autograd.grad(twin(x, params, *rest), wanted, grad, create_graph=True))
    return [next(computed) if t.requires_grad else None for t in tensors]


class _MLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, activation: Activation, last: bool, x: Tensor, *params: Tensor) -> Tensor:
        out, entered = run_forward(x, params, activation, last)
        ctx.activation, ctx.last, ctx.count = activation, last, len(params)
        ctx.save_for_backward(*params, *entered, *([out] if last else []))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        saved, count = ctx.saved_tensors, ctx.count
        params, entered = saved[:count], saved[count : count * 3 // 2]
        if torch.is_grad_enabled():
            return None, None, *_derivable(mlp_twin, (entered[0], *params), grad, ctx.activation, ctx.last)
        if ctx.last:
            grad = grad.clone()
            SLOPES[ctx.activation](grad, saved[-1])
        by_first, grads = run_backward(params[::2], entered, grad, ctx.activation, asked_for(ctx, 1))
        return None, None, product(by_first, params[0]) if asked_for(ctx, 0, 1) else None, *grads


class _EnsembleMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, activation: Activation, x: Tensor, *params: Tensor) -> Tensor:
        ctx.members, ctx.activation, ctx.count = members(params), activation, len(params)
        passes = [run_forward(x, member, activation, False) for member in ctx.members]
        ctx.save_for_backward(*params, x, *(value for _, entered in passes for value in entered[1:]))
        return torch.stack([out for out, _ in passes])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        params, (x, *inside) = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        if torch.is_grad_enabled():
            return None, *_derivable(ensemble_twin, (x, *params), grad, ctx.activation)
        hidden = ctx.count // 2 - 1
        entered = [(x, *inside[e * hidden : (e + 1) * hidden]) for e in range(len(ctx.members))]
        each = [
            (m[::2], values, g, ctx.activation)
            for m, values, g in zip(ctx.members, entered, grad.unbind(0), strict=True)
        ]
        if not asked_for(ctx, 1):
            by_x = torch.zeros_like(x)
            for member in each:
                input_grad(*member, by_x)
            return None, by_x, *[None] * ctx.count
        by_first, by_params = zip(*(run_backward(*member, True) for member in each), strict=True)
        grads = [stacked(grads, k % 2 == 0) for k, grads in enumerate(zip(*by_params, strict=True))]
        if not asked_for(ctx, 0, 1):
            return None, None, *grads
        by_x = torch.stack([product(g, m[0]) for g, m in zip(by_first, ctx.members, strict=True)]).sum(0)
        return None, by_x, *grads


def stacked(grads: Sequence[Tensor], weights: bool) -> Tensor:
    """[O, I] of each member to [E, I, O], or [O] to [E, 1, O]."""
    return torch.stack([g.t() for g in grads]) if weights else torch.stack(list(grads)).unsqueeze(1)


def pays(x: Tensor, params: Sequence[Tensor], activation: Activation) -> bool:
    """Whether a kernel takes these rows [..., I] through these layers in less time than its twin."""
    rows = x.numel() // x.shape[-1]
    enough = ENOUGH_TANH if activation is torch.tanh_ else ENOUGH
    if rows < FEW_ROWS or rows * max(w.shape[-1] * w.shape[-2] for w in params[::2]) < enough:
        return False
    return is_plain(x)


def mlp(x: Tensor, params: Sequence[Tensor], activation: Activation, last: bool = True) -> Tensor:
    """A network of nn.Linear's layers.  [..., I] -> [..., O]"""
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    if torch.is_grad_enabled():
        out = _MLP.apply(activation, last, rows, *params)  # type: ignore[no-untyped-call]
    else:
        out = run_forward(rows, params, activation, last)[0]
    return out if x.ndim == 2 else out.view(*x.shape[:-1], -1)


def ensemble_mlp(x: Tensor, params: Sequence[Tensor], activation: Activation) -> Tensor:
    """Members as batched weights, with no activation after the last layer.  [B, I] -> [E, B, O]"""
    if torch.is_grad_enabled():
        return _EnsembleMLP.apply(activation, x, *params)  # type: ignore[no-untyped-call]
    return torch.stack([run_forward(x, member, activation, False)[0] for member in members(params)])
