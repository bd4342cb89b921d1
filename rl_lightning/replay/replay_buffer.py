"""What every replay buffer offers, and the question of whether it fits into memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import psutil
import torch
from torch import Tensor

from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.factories import settings_of
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps, Transitions

F = TypeVar("F", bound=Callable[..., Any])
AUTO_SHARE = 0.5  # fraction of the free memory that `capacity: auto` takes
AUTO_MOST = 1_000_000  # rows, whatever the memory


class ReplayBuffer(ABC):
    """Rows of experience, written in the order they happened, read at random."""

    capacity: int
    progress: float  # fraction of the run that is over; set before sampling

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def add(self, steps: Steps) -> None: ...

    @abstractmethod
    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions: ...

    @abstractmethod
    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Puts new rows into the store; what is returned tells the rest."""

    @abstractmethod
    def load(self, state: dict[str, Any], store: SegmentStore) -> None: ...

    @abstractmethod
    def end_episode(self, env: int) -> None:
        """The env's episode is broken off after its newest row: nothing is summed across."""

    def use_env(self, config: EnvConfig) -> None:  # noqa: B027  (most buffers ask it nothing)
        """Told which env its rows come from."""

    def set_priorities(  # noqa: B027  (most buffers have none)
        self, index: Tensor, priority: Tensor
    ) -> None:
        """Told how wrong the last prediction for each row was; uniform sampling does not care."""


# Makes a buffer for the rows of so many envs.
BufferFactory = Callable[[EnvSpec, int], ReplayBuffer]


def fit_capacity(capacity: int | str, row_bytes: int, num_envs: int, free: int | None = None) -> int:
    """The number of rows to allocate, a multiple of `num_envs`; refuses what `free` bytes (memory) cannot hold."""
    free = psutil.virtual_memory().available if free is None else free
    if capacity == "auto":
        rows = min(AUTO_MOST, int(AUTO_SHARE * free) // row_bytes)
    elif isinstance(capacity, int) and capacity > 0:
        rows = capacity
    else:
        raise ConfigError(f"buffer.capacity is {capacity!r}; it must be a positive number of rows, or auto")
    if rows * row_bytes > free:
        fits = int(AUTO_SHARE * free) // row_bytes
        raise ConfigError(
            f"a buffer of {rows:,} rows needs {rows * row_bytes / 2**30:.1f} GB and {free / 2**30:.1f} GB are free.\n"
            f"Use --data.buffer.init_args.capacity {fits} or auto (half of what is free)"
        )
    return max(num_envs, rows // num_envs * num_envs)


def with_saved_capacity(factory: F, saved: int | None, built: int) -> F | None:
    """What makes a buffer of the size it was saved with; None where it has that size already.

    `auto` follows the memory that is free, which is another after a restart; a number that was changed is refused,
    because rows that were never written would be drawn.
    """
    if saved is None or saved == built:
        return None
    if (settings_of(factory) or {}).get("capacity") != "auto":
        raise ResumeError(
            f"the buffer had room for {saved:,} rows, and this run asks for {built:,}; an exact resume keeps it.\n"
            f"Use --data.buffer.init_args.capacity {saved}, or begin anew from its weights: "
            "rl fit --config ... --ckpt_path RUN --resume_mode warm_start"
        )
    return cast(F, partial(factory, capacity=saved))
