"""Heads that tell the reward's class from the features of a next-frame network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.functional.reward_classes import CLASSES
from rl_lightning.nn.frames.frame_parts import make_norm

HIDDEN = 128
DROPOUT = 0.3  # of whole maps


class RewardNet(nn.Module, ABC):
    """Features to logits of -1, 0 and +1."""

    @abstractmethod
    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        """[B, M, h, w], [B, W, H, W] -> [B, 3]"""


class MeanRewardNet(RewardNet):
    """The original head (SimPLe): means over space, two layers.

    Args:
        mid_channels: Channels of the small map.
        base_channels: Channels of the full map.
        mid_size: Height and width of the small map.
        compress_steps: Halvings between the two; unused here.
        norm: Unused here.
    """

    def __init__(
        self, mid_channels: int, base_channels: int, mid_size: tuple[int, int], compress_steps: int, norm: str
    ) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(mid_channels + base_channels, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        means = torch.cat([mid.mean((-2, -1)), fin.mean((-2, -1))], 1)
        return self.out(F.relu(self.hidden(means)))


class SpatialRewardNet(RewardNet):
    """MBARC's head: keeps where things are, which a mean throws away.

    Args:
        mid_channels: Channels of the small map.
        base_channels: Channels of the full map.
        mid_size: Height and width of the small map.
        compress_steps: Halvings between the two.
        norm: layer or instance, without weights of its own.
    """

    def __init__(
        self, mid_channels: int, base_channels: int, mid_size: tuple[int, int], compress_steps: int, norm: str
    ) -> None:
        super().__init__()
        self.from_mid, self.from_fin = (
            nn.Conv2d(mid_channels, base_channels, 1),
            nn.Conv2d(base_channels, base_channels, 1),
        )
        self.drop = nn.Dropout2d(DROPOUT)
        self.convs = nn.ModuleList(
            nn.Conv2d(base_channels, base_channels, 4, 2, 1) for _ in range(compress_steps)
        )
        self.norm = make_norm(norm, base_channels, affine=False)
        self.hidden = nn.Linear(2 * base_channels * math.prod(mid_size), HIDDEN)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        x = self.from_fin(fin)
        for conv in self.convs:
            x = self.norm(F.relu(conv(self.drop(x))))
        both = torch.cat([self.from_mid(mid), x], 1).flatten(1)
        return self.out(F.relu(self.hidden(both)))


HEADS: dict[str, type[RewardNet]] = {"spatial": SpatialRewardNet, "mean": MeanRewardNet}
