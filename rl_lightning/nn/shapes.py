"""What a module gives for rows of some shape: on the meta device where it can, without numbers or memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rl_lightning.errors import ConfigError

Shape = tuple[int, ...]


def output_of(module: nn.Module, shapes: tuple[Shape, ...], who: str) -> object:
    """What the module gives for one row.

    Args:
        module: Whatever a user brought.
        shapes: Of its inputs, each with one row.
        who: What it is called in an error.
    """
    modes = [(part, part.training) for part in module.modules()]
    module.eval()  # one row has no statistics to normalize by
    try:
        out = _on_meta(module, shapes)
        return _on_zeros(module, shapes, who) if out is None else out
    finally:
        for part, training in modes:
            part.training = training


def shape_of(out: object) -> list[int] | str:
    """The shape of a tensor; the name of the type of all else."""
    return list(out.shape) if isinstance(out, Tensor) else type(out).__name__


def _on_meta(module: nn.Module, shapes: tuple[Shape, ...]) -> object:
    """What the module gives for shapes alone; None where it cannot say."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    if any(is_lazy(tensor) for tensor in tensors.values()):
        return None  # the row of zeros is what makes its weights
    weights = {key: tensor.to("meta") for key, tensor in tensors.items()}
    try:
        with torch.device("meta"), torch.no_grad():
            return torch.func.functional_call(module, weights, tuple(torch.zeros(shape) for shape in shapes))
    except Exception:  # it looks at numbers, or does not fit: zeros tell which
        return None


def _on_zeros(module: nn.Module, shapes: tuple[Shape, ...], who: str) -> object:
    weight = next(module.parameters(), None)
    rows = [torch.zeros(shape, device=None if weight is None else weight.device) for shape in shapes]
    try:
        with torch.no_grad():
            return module(*rows)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        taken = " and ".join(str(list(row.shape)) for row in rows)
        what = f"observations {taken}" if len(rows) == 1 else f"rows, times and conditions {taken}"
        raise ConfigError(f"{who} does not take {what}: {line}") from error
