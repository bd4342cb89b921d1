"""Terms that keep critics of recorded data careful: CQL's soft maximum, EDAC's diversity of gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.functional.action_distributions import mask_logits


def soft_maximum(values: Tensor, log_density: Tensor) -> Tensor:
    """log of the integral of exp(Q) over all actions, by importance sampling, plus log N, which no code of CQL leaves
    out.

    Args:
        values: Q of N actions at each state.  [E, B, N]
        log_density: Log-density that each was drawn with.  [B, N]

    Returns:
        Of each critic at each state.  [E, B]
    """
    assert values.shape[1:] == log_density.shape, (values.shape, log_density.shape)
    return (values - log_density).logsumexp(-1)


def discrete_gap(q: Tensor, action: Tensor, mask: Tensor | None = None) -> Tensor:
    """How far the soft maximum over all legal actions lies above the data's action.  [B, A], [B] -> [B]"""
    return mask_logits(q, mask).logsumexp(-1) - q.gather(-1, action[:, None])[:, 0]


def gradient_diversity(grads: Tensor) -> Tensor:
    """EDAC's term: the mean over rows of the sum over ordered pairs of critics of the cosine between their gradients by
    the action, over N - 1.  [E, B, A] -> []

    N where all agree, 0 where they are orthogonal, -N / (N - 1) at the least.
    """
    unit = grads / (torch.linalg.vector_norm(grads, dim=-1, keepdim=True) + 1e-10)
    pairs = unit.sum(0).square().sum(-1) - unit.square().sum((0, -1))  # [B], each pair in both orders
    return pairs.mean() / (len(grads) - 1)
