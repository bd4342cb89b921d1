"""When a network may take a hand-written path, and which gradients a backward pass asks it for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as nn_module


def is_plain(x: Tensor) -> bool:
    """Whether x is full precision on a CPU, outside autocast, tracing, compiling and torch.func."""
    return (
        x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.jit.is_tracing()
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def is_hooked(modules: Iterable[nn.Module]) -> bool:
    """Whether somebody waits for one of these modules to be called."""
    if nn_module._has_any_global_hook():
        return True
    for m in modules:  # noqa: SIM110  (a generator costs twice as much, for every action)
        if m._forward_hooks or m._forward_pre_hooks or m._backward_hooks or m._backward_pre_hooks:
            return True
    return False


_leaves: set[int] | None = None  # ids of what the running backward pass was asked for, where they are known


@contextmanager
def asking(leaves: Iterable[Tensor]) -> Iterator[None]:
    """Around torch.autograd.grad by these leaves: `asked_for` then needs no answer of the engine's."""
    global _leaves
    before, _leaves = _leaves, {id(leaf) for leaf in leaves}
    try:
        yield
    finally:
        _leaves = before


def asked_for(ctx: Any, first: int, last: int | None = None) -> bool:
    """Whether this backward pass needs the gradient of any of these tensors that a Function was given.

    `ctx.needs_input_grad` says whether they have one at all: an actor's loss would pay for every weight of the critic
    it looks through.
    """
    return any(node is not None and _is_run(node) for node, _ in ctx.next_functions[first:last])


def _is_run(node: Any) -> bool:
    if _leaves is not None and (leaf := getattr(node, "variable", None)) is not None:
        return id(leaf) in _leaves
    try:
        return bool(torch._C._will_engine_execute_node(node))
    except RuntimeError:  # its way of saying that torch.autograd.grad was given this very leaf; 40 us
        return True
