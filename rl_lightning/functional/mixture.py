"""Gaussian mixtures as plain arithmetic: one per dimension (World Models), or one over the whole vector.

Parameters are [..., D, K] for a mixture per dimension and logits [..., K], means and log-stds [..., K, D] for a joint
one. Random numbers are the caller's.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def kl_to_standard_normal(mean: Tensor, log_var: Tensor) -> Tensor:
    """KL of a diagonal Gaussian to N(0, 1), summed over the last axis.  [..., Z] -> [...]"""
    return 0.5 * (mean.square() + log_var.exp() - log_var - 1.0).sum(-1)


def _normal_log_prob(value: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    return -0.5 * ((value - mean) * (-log_std).exp()).square() - log_std - HALF_LOG_2PI


def mixture_log_prob(value: Tensor, logits: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density under a mixture per dimension, summed over dimensions.  [..., D], [..., D, K] -> [...]"""
    assert mean.shape == logits.shape == log_std.shape, (mean.shape, logits.shape, log_std.shape)
    each = _normal_log_prob(value.unsqueeze(-1), mean, log_std)
    return torch.logsumexp(F.log_softmax(logits, -1) + each, -1).sum(-1)


def joint_mixture_log_prob(value: Tensor, logits: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-density under one mixture of diagonal Gaussians.  [..., D], [..., K], [..., K, D] -> [...]"""
    assert mean.shape == log_std.shape and logits.shape == mean.shape[:-1], (mean.shape, logits.shape)
    each = _normal_log_prob(value.unsqueeze(-2), mean, log_std).sum(-1)
    return torch.logsumexp(F.log_softmax(logits, -1) + each, -1)


def _choose(logits: Tensor, temperature: float, clocks: Tensor) -> Tensor:
    """A component by exponential clocks: of clocks with the probabilities as rates, the first to ring."""
    return (logits / temperature - clocks.log()).argmax(-1, keepdim=True)


def mixture_sample(
    logits: Tensor, mean: Tensor, log_std: Tensor, temperature: float, clocks: Tensor, noise: Tensor
) -> Tensor:
    """A draw per dimension: logits / T, std * sqrt(T). `clocks` are exponential, `noise` standard normal.

    [..., D, K] three times, [..., D, K], [..., D] -> [..., D]
    """
    index = _choose(logits, temperature, clocks)
    centre, width = mean.gather(-1, index)[..., 0], log_std.gather(-1, index)[..., 0].exp()
    return centre + width * math.sqrt(temperature) * noise


def joint_mixture_sample(
    logits: Tensor, mean: Tensor, log_std: Tensor, temperature: float, clocks: Tensor, noise: Tensor
) -> Tensor:
    """A draw of one whole component.  [..., K], [..., K, D] twice, clocks [..., K], noise [..., D] -> [..., D]"""
    index = _choose(logits, temperature, clocks).unsqueeze(-1).expand(*mean.shape[:-2], 1, mean.shape[-1])
    centre, width = mean.gather(-2, index)[..., 0, :], log_std.gather(-2, index)[..., 0, :].exp()
    return centre + width * math.sqrt(temperature) * noise
