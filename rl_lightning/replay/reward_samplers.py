"""Which steps a reward head learns from: strategies against the rarity of rewards, right for any mix of signs."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.functional.reward_classes import CLASSES, power_probs, reward_label


class RewardSampler(ABC):
    """Sorts steps into groups, and says how often each group is drawn; within a group all steps are alike."""

    @abstractmethod
    def groups(self, reward: Tensor, earlier: Tensor, later: Tensor) -> list[Tensor]:
        """Places of each group's steps. `earlier` and `later` say whether the step beside this one paid.  [N] each"""

    @abstractmethod
    def group_probs(self, counts: Tensor, progress: float) -> Tensor:
        """How often each group is drawn; nothing for an empty one.  [G] -> [G], sum 1"""


class SignSampler(RewardSampler):
    """Groups are the reward's signs, drawn by a power of their counts."""

    power = 1.0

    def groups(self, reward: Tensor, earlier: Tensor, later: Tensor) -> list[Tensor]:
        label = reward_label(reward)
        return [(label == k).nonzero()[:, 0] for k in range(CLASSES)]

    def group_probs(self, counts: Tensor, progress: float) -> Tensor:
        return power_probs(counts, self.power)


class OnlineSampler(SignSampler):
    """Steps as they come: most pay nothing."""


class ClassBalancedSampler(SignSampler):
    """Every sign that occurs is drawn equally often."""

    power = 0.0


class SquareRootSampler(SignSampler):
    """By the root of the counts, between the two."""

    power = 0.5


class ProgressivelyBalancedSampler(SignSampler):
    """From as they come to equally often, over the stage."""

    def group_probs(self, counts: Tensor, progress: float) -> Tensor:
        return (1.0 - progress) * power_probs(counts, 1.0) + progress * power_probs(counts, 0.0)


class MBARCSampler(RewardSampler):
    """Steps far from any reward, beside one, and on one, by fixed shares.

    The steps beside a reward look most like it: they teach where exactly it is paid.

    Args:
        mbarc_dist: Of far, near and on.
        near_side: Which neighbors count as near: both, or after (the step after a reward alone, as the original
            in effect does).
        sign_power: How the fraction of on is split between the signs: 0 equally, 1 by their counts.
    """

    def __init__(
        self,
        mbarc_dist: tuple[float, float, float] = (0.35, 0.05, 0.60),
        near_side: str = "both",
        sign_power: float = 0.0,
    ) -> None:
        if near_side not in ("both", "after"):
            raise ConfigError(f"sampler.near_side is '{near_side}'; choose both or after")
        if min(mbarc_dist) < 0.0 or sum(mbarc_dist) <= 0.0:
            raise ConfigError(f"sampler.shares are {mbarc_dist}; they must not be negative, nor all 0")
        self.given, self.near_side, self.sign_power = tuple(mbarc_dist), near_side, sign_power

    def groups(self, reward: Tensor, earlier: Tensor, later: Tensor) -> list[Tensor]:
        beside = (earlier | later) if self.near_side == "both" else earlier
        none = reward == 0
        masks = (none & ~beside, none & beside, reward < 0, reward > 0)
        return [mask.nonzero()[:, 0] for mask in masks]

    def group_probs(self, counts: Tensor, progress: float) -> Tensor:
        far, near, on = self.given
        split = power_probs(counts[2:], self.sign_power) if counts[2:].sum() else torch.zeros(2).double()
        share = torch.cat([torch.tensor([far, near], dtype=torch.float64), on * split])
        share = torch.where(counts > 0, share, 0.0)
        if not share.sum():  # whatever there is has no share: steps as they come
            return power_probs(counts, 1.0)
        return share / share.sum()


class GroupSampler:
    """Draws steps by a sampler.

    Args:
        sampler: The strategy.
        rows: Rows of the steps that may be drawn.
        reward: Of each.
        earlier: Whether the step before paid.
        later: Whether the step after pays.
    """

    def __init__(
        self, sampler: RewardSampler, rows: Tensor, reward: Tensor, earlier: Tensor, later: Tensor
    ) -> None:
        self.sampler = sampler
        self.groups = [rows[place] for place in sampler.groups(reward, earlier, later)]
        self.counts = torch.tensor([len(group) for group in self.groups])

    def __call__(self, count: int, progress: float, generator: torch.Generator) -> Tensor:
        """Rows, with replacement.  -> [count]"""
        shares = self.sampler.group_probs(self.counts, progress)
        group = torch.multinomial(shares, count, replacement=True, generator=generator)
        place = (torch.rand(count, generator=generator, dtype=torch.float64) * self.counts[group]).long()
        offset = torch.cumsum(self.counts, 0) - self.counts
        return torch.cat(self.groups)[offset[group] + place]
