"""What data and learner know of each other: two short lists of names, so that neither reaches into the other."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from rl_lightning.clock.run_clock import RunClock
from rl_lightning.rollout.collect import ActFn
from rl_lightning.types import Carry, FrameWindow, Transitions


class Learner(Protocol):
    """What data ask of the module that learns from them. It is handed to them once, when a fit begins."""

    gamma: float
    n_step: int
    ensemble_size: int  # parts that may each be given rows of their own; 0: all learn from the same
    evaluated_on: Literal["episodes", "rows"]
    looks_by_passes: bool
    models_next_obs: bool

    @property
    def device(self) -> torch.device: ...
    def act_fn(self, role: str = "agent") -> ActFn: ...
    def initial_carry(self, count: int) -> Carry: ...
    def attach(self, source: Any) -> None: ...


class DataSource(Protocol):
    """What every module may ask of its data, in `setup` and when it is evaluated."""

    clock: RunClock
    seed: int


class RowSource(DataSource, Protocol):
    """Recorded transitions, some of them held out."""

    def train_rows(self) -> Transitions: ...
    def val_rows(self) -> Transitions: ...


class FrameSource(DataSource, Protocol):
    """Recorded frames, some of them held out."""

    def reward_counts(self) -> Tensor: ...
    def color_counts(self, colors: int) -> Tensor: ...
    def val_windows(
        self, count: int, length: int, past: int = 0, strict: bool = True
    ) -> FrameWindow | None: ...
    def val_reward_steps(self, count: int, past: int = 0) -> FrameWindow: ...
