"""Heads that tell the reward's class from the features of a next-frame network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.reward_classes import CLASSES
from rl_lightning.nn.frames.frame_parts import make_norm
from rl_lightning.nn.init import check_sizes
from rl_lightning.ranges import FractionBelowOne


class FeatureMaps(NamedTuple):
    """What a next-frame network shows its heads: a small map amid its layers, and the full one at their end."""

    mid_channels: int
    base_channels: int  # of the full map
    mid_size: tuple[int, int]  # height and width of the small map
    compress_steps: int  # halvings between the two
    norm: str  # layer or instance


class RewardNet(nn.Module, ABC):
    """Features to logits of -1, 0 and +1."""

    @abstractmethod
    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        """[B, M, h, w], [B, W, H, W] -> [B, 3]"""


class MeanRewardNet(RewardNet):
    """The original head (SimPLe): means over space, two layers.

    Args:
        hidden_dim: Width of the hidden layer.
    """

    def __init__(self, maps: FeatureMaps, /, hidden_dim: int = 128) -> None:
        super().__init__()
        check_sizes("hidden_dim", [hidden_dim])
        self.hidden = nn.Linear(maps.mid_channels + maps.base_channels, hidden_dim)
        self.out = nn.Linear(hidden_dim, CLASSES)

    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        means = torch.cat([mid.mean((-2, -1)), fin.mean((-2, -1))], 1)
        return self.out(F.relu(self.hidden(means)))


class SpatialRewardNet(RewardNet):
    """MBARC's head: keeps where things are, which a mean throws away.

    Args:
        hidden_dim: Width of the hidden layer.
        dropout: Fraction of whole maps that is dropped in training.
    """

    def __init__(self, maps: FeatureMaps, /, hidden_dim: int = 128, dropout: FractionBelowOne = 0.3) -> None:
        super().__init__()
        check_sizes("hidden_dim", [hidden_dim])
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"SpatialRewardNet: dropout is {dropout}; it is at least 0, and below 1")
        width = maps.base_channels
        self.from_mid, self.from_fin = nn.Conv2d(maps.mid_channels, width, 1), nn.Conv2d(width, width, 1)
        self.drop = nn.Dropout2d(dropout)
        self.convs = nn.ModuleList(nn.Conv2d(width, width, 4, 2, 1) for _ in range(maps.compress_steps))
        self.norm = make_norm(maps.norm, width, affine=False)  # without weights of its own
        self.hidden = nn.Linear(2 * width * math.prod(maps.mid_size), hidden_dim)
        self.out = nn.Linear(hidden_dim, CLASSES)

    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        x = self.from_fin(fin)
        for conv in self.convs:
            x = self.norm(F.relu(conv(self.drop(x))))
        both = torch.cat([self.from_mid(mid), x], 1).flatten(1)
        return self.out(F.relu(self.hidden(both)))


# Makes a reward head for the maps of a network.
RewardNetFactory = Callable[[FeatureMaps], RewardNet]
