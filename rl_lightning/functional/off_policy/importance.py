"""Importance-weighted and doubly robust values of a policy, from episodes of another one.

Rows are laid out by episode, [N, T]; `alive` says which of them there are. Weights are normalised over the episodes at
each step (weighted, per decision: Precup 2000; doubly robust: Thomas and Brunskill 2016).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class OffPolicyValue(NamedTuple):
    """An estimate, and how many episodes it comes down to."""

    value: float
    effective_episodes: float


def episode_layout(episode: Tensor) -> tuple[Tensor, Tensor]:
    """Where each row of episodes [M] that follow each other lies.  -> episode and step of each row"""
    _, place, counts = torch.unique_consecutive(episode, return_inverse=True, return_counts=True)
    first = counts.cumsum(0) - counts
    return place, torch.arange(len(episode), device=episode.device) - first[place]


def laid_out(rows: Tensor, place: Tensor, step: Tensor) -> Tensor:
    """Rows [M] by episode and step, 0 where there is none.  -> [N, T]"""
    out = rows.new_zeros(int(place.max()) + 1, int(step.max()) + 1)
    out[place, step] = rows
    return out


def weights(log_ratio: Tensor, alive: Tensor) -> Tensor:
    """Weight of each episode up to each step; an episode that is over keeps its last one.  [N, T] -> [N, T]

    At each step they sum to 1.
    """
    total = torch.where(alive, log_ratio, 0.0).double().cumsum(1)
    return torch.softmax(total, 0)


def effective_episodes(weight: Tensor) -> float:
    """Kish's effective sample size at the last step.  [N, T]"""
    return float(1.0 / weight[:, -1].square().sum())


def weighted_importance_sampling(
    log_ratio: Tensor, reward: Tensor, alive: Tensor, gamma: float
) -> OffPolicyValue:
    """Per decision: each reward counts by the weight of its episode up to there.

    Args:
        log_ratio: Log-probability of each action under the policy in question, less that under who acted.
        reward: Of each step.
        alive: Which steps there are.
        gamma: Discount.
    """
    weight = weights(log_ratio, alive)
    discount = gamma ** torch.arange(reward.shape[1], dtype=torch.float64)
    value = (weight * torch.where(alive, reward, 0.0) * discount).sum()
    return OffPolicyValue(float(value), effective_episodes(weight))


def doubly_robust(
    log_ratio: Tensor,
    reward: Tensor,
    q: Tensor,
    value: Tensor,
    last_value: Tensor,
    alive: Tensor,
    gamma: float,
) -> OffPolicyValue:
    """A critic's values, put right by what it did not foresee, weighted.

    Args:
        log_ratio: As above.
        reward: Of each step.
        q: The critic's value of each recorded action.
        value: Its value of the policy's own action there.
        last_value: [N] its value of what follows the last step of each episode; 0 where that is terminal.
        alive: Which steps there are.
        gamma: Discount.
    """
    weight = weights(log_ratio, alive)
    before = torch.cat([torch.full_like(weight[:, :1], 1.0 / len(weight)), weight[:, :-1]], 1)
    discount = gamma ** torch.arange(reward.shape[1] + 1, dtype=torch.float64)
    steps = weight * (reward - q) + before * value
    inside = (torch.where(alive, steps, 0.0) * discount[:-1]).sum()
    length = alive.sum(1)
    last = weight[torch.arange(len(weight)), length - 1]
    return OffPolicyValue(
        float(inside + (last * discount[length] * last_value).sum()), effective_episodes(weight)
    )


def spearman(one: list[float], other: list[float]) -> float:
    """Correlation of ranks; ties share theirs. NaN where one of them never changes."""
    ranks = [_ranks(torch.tensor(values, dtype=torch.float64)) for values in (one, other)]
    centred = [rank - rank.mean() for rank in ranks]
    norm = centred[0].norm() * centred[1].norm()
    return float((centred[0] * centred[1]).sum() / norm) if norm > 0 else float("nan")


def _ranks(values: Tensor) -> Tensor:
    """From 0; equal values have the mean of theirs."""
    below = (values[:, None] > values[None, :]).sum(1).double()
    equal = (values[:, None] == values[None, :]).sum(1).double()
    return below + (equal - 1.0) / 2.0
