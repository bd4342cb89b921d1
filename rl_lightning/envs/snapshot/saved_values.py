"""Between workers a snapshot travels as plain values; in a checkpoint its long bytes are tensors."""

from __future__ import annotations

from typing import Any

import torch

LONG = 512  # bytes from which a tensor is smaller in a checkpoint than pickled bytes
_PLAIN = (int, float, complex, str, bytes, bool, type(None))


def to_saved(value: Any) -> Any:
    """The same snapshot with long bytes as uint8 tensors."""
    if type(value) is bytes and len(value) >= LONG:
        return torch.frombuffer(bytearray(value), dtype=torch.uint8)
    if type(value) is dict:
        return {key: to_saved(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(to_saved(item) for item in value)
    assert type(value) in _PLAIN, type(value)
    return value


def from_saved(value: Any) -> Any:
    """The opposite of `to_saved`; anything that it never makes is a ValueError."""
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.uint8 or value.dim() != 1:
            raise ValueError(f"a tensor of {value.dtype} and shape {tuple(value.shape)}")
        return value.cpu().numpy().tobytes()
    if type(value) is dict:
        return {key: from_saved(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(from_saved(item) for item in value)
    if type(value) not in _PLAIN:
        raise ValueError(f"a value of type {type(value).__name__}")
    return value
