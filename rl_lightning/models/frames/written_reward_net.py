"""A reward head of an artifact: written down as plain values, and read again."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from rl_lightning.factories import make
from rl_lightning.models.described import rebuild
from rl_lightning.nn.frames.reward_net import FeatureMaps, RewardNet, RewardNetFactory


class WrittenRewardNet(RewardNet):
    """A reward head from plain values, as an artifact keeps it.

    Args:
        head: What makes it, written down.
        maps: What it looks at, by name.
    """

    def __init__(self, head: dict[str, Any], maps: dict[str, Any]) -> None:
        super().__init__()
        factory: RewardNetFactory = rebuild(head, "the reward head", RewardNetFactory)
        of = FeatureMaps(**{**maps, "mid_size": tuple(maps["mid_size"])})
        self.net = make(factory, RewardNet, "reward_net", of)

    def forward(self, mid: Tensor, fin: Tensor) -> Tensor:
        return self.net(mid, fin)
