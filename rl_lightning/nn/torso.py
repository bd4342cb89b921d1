"""What every torso offers: features of observations, one step at a time or a whole rollout at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rl_lightning.observations import ObsLayout
from rl_lightning.types import Carry

Shape = tuple[int, ...] | ObsLayout  # of one observation, or of its parts where it has several


def as_float(obs: Tensor) -> Tensor:
    """Pixels (uint8) become numbers in [0, 1]; floats pass as they are. Called once, by the torso."""
    if obs.is_floating_point():
        return obs
    return obs.float().div_(255.0) if obs.dtype == torch.uint8 else obs.float()


class Torso(nn.Module, ABC):
    """Observations to features. `carry` is the recurrent state, rows first, zeros where an episode starts."""

    out_dim: int
    takes_layout = False  # made of an ObsLayout where observations have several parts

    def initial_carry(self, batch: int) -> Carry:
        return ()

    @abstractmethod
    def step(self, obs: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """[B, *O] -> [B, F], carry"""

    @abstractmethod
    def unroll(self, obs: Tensor, carry: Carry, is_first: Tensor) -> tuple[Tensor, Carry]:
        """[T, B, *O], rows [B, ...], [T, B] -> [T, B, F], carry; a row's carry is zeroed where is_first."""


# Makes what turns observations into features, of the width of a flat observation or the shape of any other: a class of
# this room, any other nn.Module whose constructor takes that first, or a function.
Network = Callable[[int | tuple[int, ...]], nn.Module]


def layout_or_shape(obs: int | Shape) -> Shape:
    return obs if isinstance(obs, ObsLayout) else as_shape(obs)


def as_shape(obs_shape: int | tuple[int, ...]) -> tuple[int, ...]:
    return (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)


class FeedForward(Torso):
    """A torso without memory: `torso(obs [..., *O]) -> [..., F]`, and step and unroll are just that."""

    def step(self, obs: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        return self(obs), carry

    def unroll(self, obs: Tensor, carry: Carry, is_first: Tensor) -> tuple[Tensor, Carry]:
        return self(obs), carry
