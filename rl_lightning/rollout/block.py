"""What one training_step gets: batches that are made when the update rule asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from rl_lightning import stop_request
from rl_lightning.clock.phases import PhaseContext

_END = object()


class BlockOwner(Protocol):
    """Who makes a block, counts its updates and takes back what a rule says of the rows it saw."""

    def count_update(self) -> None: ...
    def update_priorities(self, index: Tensor, priorities: Tensor) -> None: ...
    def update_latents(self, index: Tensor, latents: Tensor) -> None: ...


class Block:
    """An iterator of batches. Walking through it collects and samples; each update is counted when the rule is done.

    Args:
        owner: The DataModule.
        batches: Makes the batches, one by one.
        hook: The module's method that learns from each.
        phase: In a phase: its fields and progress.
    """

    def __init__(
        self, owner: BlockOwner, batches: Iterator[Any], hook: str = "update", phase: PhaseContext | None = None
    ) -> None:  # fmt: skip
        self.owner, self.batches, self.hook, self.phase = owner, batches, hook, phase
        self.device: torch.device | None = None
        self.watchers: list[Callable[[Any], None]] = []
        self._held: Any = None  # made, and not yet learned from

    def to(self, device: torch.device, **kwargs: Any) -> Block:
        """Batches will be moved there as they come. Lightning calls this for every block."""
        self.device = None if device.type == "cpu" else device
        return self

    def watch(self, look: Callable[[Any], None]) -> None:
        """`look` is shown every batch before the rule is."""
        self.watchers.append(look)

    def __iter__(self) -> Iterator[Any]:
        """Who only looks at the first batch, as Lightning does to learn its size, takes nothing away."""
        if self._held is None:
            self._held = self._next()
        while self._held is not _END:
            yield self._held
            self.owner.count_update()
            self._held = self._next()

    def _next(self) -> Any:
        batch = self._make()
        if batch is not _END:
            for look in self.watchers:
                look(batch)
        return batch if self.device is None else move(batch, self.device)

    def _make(self) -> Any:
        """Collecting and sampling are done in full precision, whatever the rule is computed in."""
        stop_request.raise_if_stopped()
        if not torch.is_autocast_enabled("cpu" if self.device is None else self.device.type):
            return next(self.batches, _END)
        with torch.autocast("cpu" if self.device is None else self.device.type, enabled=False):
            return next(self.batches, _END)

    def update_priorities(self, index: Tensor, priorities: Tensor) -> None:
        self.owner.update_priorities(index, priorities)

    def update_latents(self, index: Tensor, latents: Tensor) -> None:
        self.owner.update_latents(index, latents)


def move(batch: Any, device: torch.device) -> Any:
    """A batch on another device: tensors, and NamedTuples of them."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, tuple):
        parts = [move(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    return batch


def select_update(stacked: Any, u: int) -> Any:
    """Batch u of a gather: the same NamedTuple, without the first axis."""
    return type(stacked)(*(None if field is None else field[u] for field in stacked))


def rest(stacked: Any, u: int) -> Any:
    """A gather without its first u batches; a copy, so that the others need not be kept."""
    return type(stacked)(*(None if field is None else field[u:].clone() for field in stacked))
