"""What processes tell each other. With one process every function here is a no-op."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from rl_lightning.errors import RLError

T = TypeVar("T")


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def first() -> bool:
    """Whether this is the first process of all; known from the launcher before they have met."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank() == 0
    if "RANK" in os.environ or "LOCAL_RANK" not in os.environ:
        return os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")) == "0"
    return os.environ["LOCAL_RANK"] == "0" and os.environ.get("NODE_RANK", "0") == "0"


def average_(tensors: list[Tensor]) -> None:
    """Averages tensors over all ranks in place, in one message."""
    if world_size() == 1 or not tensors:
        return
    flat = torch.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat)
    flat /= world_size()
    offset = 0
    for t in tensors:
        t.copy_(flat[offset : offset + t.numel()].view_as(t))
        offset += t.numel()


def gather(tensor: Tensor) -> list[Tensor]:
    """The tensor of every rank, in order."""
    if world_size() == 1:
        return [tensor]
    parts = [torch.empty_like(tensor) for _ in range(world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return parts


def gather_objects(value: Any) -> list[Any]:
    """The value of every rank, in order."""
    if world_size() == 1:
        return [value]
    found: list[Any] = [None] * world_size()
    dist.all_gather_object(found, value)
    return found


def from_rank_zero(value: Any) -> Any:
    """Rank 0's value: for decisions that hang on wall time, signals or the disk."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def decide(make: Callable[[], T]) -> T:
    """What rank 0 makes of it, for all; where that fails, rank 0 tells of it and the others leave with its code."""
    if world_size() == 1:
        return make()
    value, error = None, None
    if dist.get_rank() == 0:
        try:
            value = make()
        except RLError as found:
            error = found
    value, code = from_rank_zero((value, error and error.exit_code))
    if error is not None:
        raise error
    if code is not None:
        raise SystemExit(code)
    return value  # type: ignore[return-value]


def barrier() -> None:
    if world_size() > 1:
        dist.barrier()
