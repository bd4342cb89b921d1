"""Rewards as classes: labels, how often each is to be drawn, and the losses that a reward head is taught by."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_lightning.errors import ConfigError

CLASSES = 3  # -1, 0, +1


def reward_label(reward: Tensor) -> Tensor:
    """Class of a reward: 0 for negative, 1 for none, 2 for positive."""
    return reward.sign().long() + 1


def power_probs(counts: Tensor, power: float) -> Tensor:
    """n^q over the sum of all, nothing for a class that is empty: q = 1 as they come, 1/2 roots, 0 all alike."""
    weight = torch.where(counts > 0, counts.double().clamp(min=1.0) ** power, 0.0)
    return weight / weight.sum()


def class_balanced_weights(counts: Tensor, beta: float = 0.9999) -> Tensor:
    """Weights of Cui et al. (2019), mean 1 over the classes that occur; one that does not occur weighs nothing."""
    there = counts > 0
    term = (1.0 - beta) / (1.0 - beta ** counts.double().clamp(min=1.0))
    term = torch.where(there, term, 0.0)
    return there.sum() * term / term.sum()


def focal_loss(logits: Tensor, label: Tensor, weight: Tensor, gamma: float = 2.0) -> Tensor:
    """Mean of w_y (1 - p_y)^gamma (-log p_y).  [B, C], [B], [C]"""
    log_prob = logits.log_softmax(-1).gather(-1, label[:, None])[:, 0]
    return -(weight.to(logits)[label] * (1.0 - log_prob.exp()) ** gamma * log_prob).mean()


class RewardLoss(ABC):
    """A mean over rows; classes may weigh differently, by how often each occurs in the data."""

    def class_weight(self, counts: Tensor) -> Tensor:
        """Weight of each class, given its rows in the data.  [C] -> [C]"""
        return torch.ones(len(counts))

    @abstractmethod
    def __call__(self, logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
        """[B, C], [B], [C] -> []"""


class CrossEntropy(RewardLoss):
    """The plain cross-entropy; all classes weigh alike."""

    def __call__(self, logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
        return F.cross_entropy(logits, label)


class ClassBalancedFocal(RewardLoss):
    """The class-balanced focal loss (Cui et al. 2019); counts are those of the data, not of the draws.

    Args:
        beta: How strongly rare classes are favored; 0: not at all.
        focal_gamma: How little a row counts that is classified well already; 0: as much as any.
    """

    def __init__(self, beta: float = 0.9999, focal_gamma: float = 2.0) -> None:
        if not 0.0 <= beta < 1.0 or focal_gamma < 0.0:
            raise ConfigError(
                f"ClassBalancedFocal: beta is {beta} (at least 0, below 1), focal_gamma {focal_gamma} (at least 0)"
            )
        self.beta, self.focal_gamma = beta, focal_gamma

    def class_weight(self, counts: Tensor) -> Tensor:
        return class_balanced_weights(counts, self.beta)

    def __call__(self, logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
        return focal_loss(logits, label, weight, self.focal_gamma)
