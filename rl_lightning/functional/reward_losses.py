"""What a reward head is taught by: logits of -1, 0 and +1 against the class that was paid."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.reward_classes import class_balanced_weights, focal_loss


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
        gamma: How little a row counts that is classified well already; 0: as much as any.
    """

    def __init__(self, beta: float = 0.9999, gamma: float = 2.0) -> None:
        if not 0.0 <= beta < 1.0 or gamma < 0.0:
            raise ConfigError(
                f"ClassBalancedFocal: beta is {beta} (at least 0, below 1), gamma {gamma} (at least 0)"
            )
        self.beta, self.gamma = beta, gamma

    def class_weight(self, counts: Tensor) -> Tensor:
        return class_balanced_weights(counts, self.beta)

    def __call__(self, logits: Tensor, label: Tensor, weight: Tensor) -> Tensor:
        return focal_loss(logits, label, weight, self.gamma)
