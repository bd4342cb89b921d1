"""What came, and what a model imagined instead from the same start, doing what was really done."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class ImaginedWindows(NamedTuple):
    """B windows of T steps, of which a model saw only what lies before them, and the actions."""

    unit: str  # what an error of 1 means
    context: int  # rows that it saw before
    error: Tensor  # [B, T]
    held_error: Tensor  # [B, T] of what was seen last, held still
    reward: Tensor  # [B, T] received
    imagined_reward: Tensor | None  # [B, T]; None where the model tells none
    same_episode: Tensor  # [B, T] bool: no new episode began since the start
    true: Tensor  # [B, T, ...] what can be shown: pictures [C, H, W], or numbers
    imagined: Tensor
    names: tuple[str, ...] = ()  # of the numbers
    colors: int = 0  # classes of a pixel, where pictures are indices of colours

    @property
    def pictures(self) -> bool:
        return self.true.dim() == 5


class StepErrors(NamedTuple):
    """Means over the windows whose episode goes on, for each step.  [T] each"""

    error: Tensor
    held_error: Tensor
    reward: Tensor
    imagined_reward: Tensor | None
    windows: Tensor


class ImaginedLatents(NamedTuple):
    """H imagined steps of N latents, batch first, of a model that shows no observations."""

    latent: Tensor  # [N, H, Z] after each action
    action: Tensor  # [N, H, A]
    reward: Tensor  # [N, H]
    continuation: Tensor  # [N, H] 1 while the episode goes on


def step_errors(windows: ImaginedWindows) -> StepErrors:
    known = windows.same_episode.double()
    count = known.sum(0)

    def mean(values: Tensor) -> Tensor:
        return (values.double() * known).sum(0) / count.clamp_min(1.0)

    rewards = windows.imagined_reward
    return StepErrors(
        mean(windows.error), mean(windows.held_error), mean(windows.reward),
        None if rewards is None else mean(rewards), count.long(),
    )  # fmt: skip


def longest_first(windows: ImaginedWindows) -> ImaginedWindows:
    """Windows whose episode lasts longest come first: what they show is what was to be foreseen."""
    order = windows.same_episode.sum(1).argsort(descending=True, stable=True)
    columns: dict[str, Any] = {
        key: value[order] for key, value in windows._asdict().items() if isinstance(value, Tensor)
    }
    return windows._replace(**columns)


def squared_error(imagined: Tensor, true: Tensor, spread: Tensor) -> Tensor:
    """Squared distances of rows as fractions of the variance of what was seen.  [B, T, ...] -> [B, T]"""
    return (imagined - true).square().flatten(2).sum(-1) / spread


def variance_of(seen: Tensor) -> Tensor:
    """Summed over all numbers of a row.  [B, L, ...] -> []"""
    return seen.flatten(0, 1).flatten(1).var(0, correction=0).sum().clamp_min(torch.finfo(seen.dtype).tiny)
