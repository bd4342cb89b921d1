"""Rewards as classes: labels, how often each is to be drawn, and the class-balanced focal loss."""

from __future__ import annotations

import torch
from torch import Tensor

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
