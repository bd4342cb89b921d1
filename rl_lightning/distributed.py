"""What processes tell each other. With one process every function here is a no-op."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from rl_lightning.errors import EnvError, RLError

T = TypeVar("T")
PATIENCE = 60.0  # seconds that this process has to end by itself once another has died


def world_size() -> int:
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def is_rank_zero() -> bool:
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
    gathered: list[Any] = [None] * world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def from_rank_zero(value: Any) -> Any:
    """Rank 0's value: for decisions that hang on wall time, signals or the disk."""
    if world_size() == 1:
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def on_rank_zero(make: Callable[[], T]) -> T:
    """What rank 0 makes of it, for all; where that fails, rank 0 tells of it and the others leave with its code."""
    if world_size() == 1:
        return make()
    value, error = None, None
    if dist.get_rank() == 0:
        try:
            value = make()
        except RLError as failure:
            error = failure
    value, code = from_rank_zero((value, error and error.exit_code))
    if error is not None:
        raise error
    if code is not None:
        raise SystemExit(code)
    return value


class Lost(NamedTuple):
    """A process that ended before its time.

    Args:
        rank: Which one.
        code: Its exit code; minus the signal's number if one ended it.
    """

    rank: int
    code: int

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit {self.code}"
        return f"process {self.rank} ended ({how})"


_lost: list[Lost] = []


@contextmanager
def watch(children: Sequence[subprocess.Popen[Any]]) -> Iterator[None]:
    """Looks after the processes that this one started: while it lasts, none waits for one that has died."""
    _lost.clear()
    over = threading.Event()
    threading.Thread(target=_see_to_them, args=(list(children), over), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _see_to_them(children: list[subprocess.Popen[Any]], over: threading.Event) -> None:
    while not (ended := [Lost(i, c.returncode) for i, c in enumerate(children, 1) if c.poll()]):
        if all(child.poll() == 0 for child in children):
            return
        time.sleep(0.1)  # also after `over`: `lost` is asked then
    _lost.append(ended[0])
    if over.wait(PATIENCE):
        return
    # Still here: what waits for a dead process, e.g. on a GPU, waits for ever.
    for child in children:
        child.kill()
    print(f"error: {_lost[0]}", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(_lost[0].code if _lost[0].code > 0 else EnvError.exit_code)


def lost(seconds: float = 5.0) -> Lost | None:
    """Which of the processes that this one started has died, if one does within so many seconds."""
    end = time.monotonic() + seconds
    while not _lost and time.monotonic() < end:
        time.sleep(0.05)
    return _lost[0] if _lost else None


def is_lost_peer(error: BaseException) -> bool:
    """Whether an error says that another process no longer answers."""
    text = str(error).lower()
    known = isinstance(error, dist.DistError) or "gloo" in text
    return known or any(part in text for part in ("closed by peer", "reset by peer", "broken pipe"))


def barrier() -> None:
    if world_size() > 1:
        dist.barrier()
