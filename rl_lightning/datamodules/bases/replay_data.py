"""What DataModules share that keep experience and replay it: buffers by name, and which of them time runs on in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch

from rl_lightning.datamodules.bases.env_data import EnvData
from rl_lightning.envs.own_envs import EnvLike
from rl_lightning.ranges import PositiveInt
from rl_lightning.replay.replay_buffer import with_saved_capacity
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import Steps


class ReplayStorage(Protocol):
    """What every kind of buffer offers."""

    capacity: int

    def __len__(self) -> int: ...
    def set_priorities(self, index: torch.Tensor, priority: torch.Tensor) -> None: ...
    def end_episode(self, env: int) -> None: ...
    def save(self, store: SegmentStore) -> dict[str, Any]: ...
    def load(self, state: dict[str, Any], store: SegmentStore) -> None: ...


Buffer = TypeVar("Buffer", bound=ReplayStorage)


class ReplayData(EnvData, Generic[Buffer]):
    """Owns named buffers of one kind; without phases there is one, `replay`. A subclass sets `buffer_factory` and
    defines `make_buffer()`.

    Args:
        env: The environment and all that is wrapped around it.
        num_envs: Training envs of one process.
        vectorization: sync (one after the other), async (a process each) or native (Atari's own C++ vector).
    """

    draw: torch.Generator
    buffer_factory: Callable[..., Any]
    learning_starts: int

    def __init__(self, env: EnvLike, num_envs: PositiveInt, vectorization: str) -> None:
        super().__init__(env, num_envs, vectorization)
        self.replays: dict[str, Buffer] = {}
        self.filled = "replay"  # the buffer that the newest steps went into
        self.drawn_from = "replay"  # the buffer that the current block learns from

    def notes(self) -> list[str]:
        budget = self.clock.run.env_steps
        if budget is None or budget > self.learning_starts or self.clock.phases is not None:
            return super().notes()
        first = f"learning starts after data.learning_starts {self.learning_starts}"
        return [*super().notes(), f"all {budget} env steps are random ones: {first}"]

    def begin_anew(self) -> None:
        super().begin_anew()
        self.replays, self.filled, self.drawn_from = {}, "replay", "replay"

    def make_buffer(self, factory: Any) -> Buffer:
        """An empty buffer."""
        raise TypeError(f"{type(self).__name__} must define make_buffer(factory)")

    def named(self, name: str) -> Buffer:
        """A buffer by its name; a new name gets a buffer of its own."""
        if name not in self.replays:
            self.replays[name] = self.make_buffer(self.buffer_factory)
        return self.replays[name]

    @property
    def buffer(self) -> Buffer:
        return self.named("replay")

    @property
    def active_buffer(self) -> str:
        """Name of the buffer that the due updates learn from."""
        return "replay" if self.clock.phases is None else self.clock.phases.phase.buffer

    def buffer_to_fill(self, name: str, rows: Steps) -> Buffer:
        """The buffer that is to take the rows. After a switch they begin anew: they do not follow what it holds."""
        if name != self.filled:
            for env in range(self.num_envs):
                self.named(self.filled).end_episode(env)
            rows.is_first[0] = True
            self.filled = name
        return self.named(name)

    def update_priorities(self, index: torch.Tensor, priorities: torch.Tensor) -> None:
        self.named(self.drawn_from).set_priorities(index, priorities)

    def save(self, store: SegmentStore) -> dict[str, Any]:
        return super().save(store) | {
            "draw": self.draw.get_state(),
            "filled": self.filled,
            "drawn_from": self.drawn_from,
            "buffers": {name: buffer.save(store.part(name)) for name, buffer in self.replays.items()},
            "capacities": {name: buffer.capacity for name, buffer in self.replays.items()},
        }

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        self.draw.set_state(state["draw"])
        self.filled = state.get("filled", "replay")
        self.drawn_from = state.get("drawn_from", "replay")
        for name, saved in state["buffers"].items():
            factory = with_saved_capacity(
                self.buffer_factory, state.get("capacities", {}).get(name), self.named(name).capacity
            )
            if factory is not None:
                self.replays[name] = self.make_buffer(factory)
            self.named(name).load(saved, store.part(name))
            for env in self.restarted:
                self.named(name).end_episode(env)

    def collect_metrics(self) -> dict[str, float]:
        return super().collect_metrics() | {"collect/buffer_size": float(len(self.buffer))}
