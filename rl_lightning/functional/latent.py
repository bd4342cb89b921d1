"""Arithmetic of latent world models: squashing, two-hot numbers, discrete samples with a gradient, divergences."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def symlog(x: Tensor) -> Tensor:
    """sign(x) log(1 + |x|): large numbers become small, small ones stay."""
    return torch.sign(x) * torch.log1p(x.abs())


def symexp(x: Tensor) -> Tensor:
    """The inverse of symlog."""
    return torch.sign(x) * torch.expm1(x.abs())


# Two-hot: a number as weights of the two bins beside it


def two_hot_bins(count: int, limit: float, exponential: bool) -> Tensor:
    """`count` (odd) bins from -limit to limit, or from symexp(-limit) to symexp(limit); exactly antisymmetric."""
    assert count % 2 == 1, count
    upper = torch.linspace(0.0, limit, count // 2 + 1, dtype=torch.float64)
    upper = (symexp(upper) if exponential else upper).float()
    return torch.cat((-upper[1:].flip(0), upper))


def two_hot_loss(logits: Tensor, target: Tensor, bins: Tensor) -> Tensor:
    """Cross-entropy to the two bins beside the target, in shares by nearness.  [..., K], [...], [K] -> [...]"""
    target = target.clamp(bins[0].item(), bins[-1].item())
    above = torch.searchsorted(bins, target.contiguous()).clamp(
        1, len(bins) - 1
    )  # the first bin not below it
    low, high = bins[above - 1], bins[above]
    share = (target - low) / (high - low)  # of the upper bin
    log_probs = F.log_softmax(logits, -1)
    beside = log_probs.gather(-1, torch.stack((above - 1, above), -1))
    return -((1.0 - share) * beside[..., 0] + share * beside[..., 1])


def two_hot_mean(logits: Tensor, bins: Tensor) -> Tensor:
    """The expected bin. Bins of opposite sign are set off first: equal logits give exactly 0.  [..., K] -> [...]"""
    half = len(bins) // 2
    probs = logits.softmax(-1)
    return (probs[..., half + 1 :] - probs[..., :half].flip(-1)) @ bins[half + 1 :]


# Categorical latents: logits [..., S, C] of S variables with C classes


def unimix(logits: Tensor, share: float) -> Tensor:
    """Log-probabilities with `share` of a uniform distribution mixed in: no class is ever impossible."""
    if share == 0.0:
        return F.log_softmax(logits, -1)
    return torch.log((1.0 - share) * logits.softmax(-1) + share / logits.shape[-1])


def gumbel(noise: Tensor) -> Tensor:
    """Gumbel noise from exponential noise; the largest of logits + gumbel is a draw from the softmax."""
    return -noise.clamp_min(torch.finfo(noise.dtype).tiny).log()


def categorical_kl(log_q: Tensor, log_p: Tensor) -> Tensor:
    """KL(q || p), summed over the S variables; arguments are log-probabilities.  [..., S, C] -> [...]"""
    return (log_q.exp() * (log_q - log_p)).sum((-2, -1))


def gaussian_kl(mean_q: Tensor, std_q: Tensor, mean_p: Tensor, std_p: Tensor) -> Tensor:
    """KL(q || p) of diagonal Gaussians, summed over dimensions.  [..., S] -> [...]"""
    ratio = (std_q / std_p).square()
    shift = ((mean_q - mean_p) / std_p).square()
    return 0.5 * (ratio + shift - 1.0 - ratio.log()).sum(-1)


# How a KL becomes a loss. `dyn` = KL(sg(q), p) teaches the prior, `rep` = KL(q, sg(p)) the posterior


def free_nats_kl(kl: Tensor, free: float) -> Tensor:
    """The mean, not pushed below `free` nats (PlaNet, Dreamer v1)."""
    return kl.mean().clamp(min=free)


def balanced_kl(dyn: Tensor, rep: Tensor, balance: float, free: float) -> Tensor:
    """`balance` of the prior's lesson and the rest of the posterior's, clipped after averaging (Dreamer v2)."""
    return balance * dyn.mean().clamp(min=free) + (1.0 - balance) * rep.mean().clamp(min=free)


def dyn_rep_kl(dyn: Tensor, rep: Tensor, dyn_weight: float, rep_weight: float, free: float) -> Tensor:
    """Two weights, clipped for every state alone before averaging (Dreamer v3)."""
    return dyn_weight * dyn.clamp(min=free).mean() + rep_weight * rep.clamp(min=free).mean()


# Action distributions of imagined policies


def truncated_normal_sample(mean: Tensor, std: Tensor, uniform: Tensor) -> Tensor:
    """A draw from a Gaussian cut off at -1 and 1, by the inverse of its distribution, with a gradient."""
    low, high = normal_cdf((-1.0 - mean) / std), normal_cdf((1.0 - mean) / std)
    quantile = (low + uniform * (high - low)).clamp(1e-6, 1.0 - 1e-6)
    sample = mean + std * (2.0**0.5) * torch.erfinv(2.0 * quantile - 1.0)
    inside = sample.clamp(-1.0 + 1e-6, 1.0 - 1e-6)
    return sample + (inside - sample).detach()


def truncated_normal_entropy(mean: Tensor, std: Tensor) -> Tensor:
    """Summed over dimensions.  [..., A] -> [...]"""
    low, high = (-1.0 - mean) / std, (1.0 - mean) / std
    mass = (normal_cdf(high) - normal_cdf(low)).clamp_min(1e-8)
    edges = (low * normal_density(low) - high * normal_density(high)) / (2.0 * mass)
    return (0.5 * torch.log(2.0 * torch.pi * torch.e * std.square()) + mass.log() + edges).sum(-1)


def truncated_normal_log_prob(mean: Tensor, std: Tensor, action: Tensor) -> Tensor:
    """Summed over dimensions.  [..., A] -> [...]"""
    mass = (normal_cdf((1.0 - mean) / std) - normal_cdf((-1.0 - mean) / std)).clamp_min(1e-8)
    inner = -0.5 * ((action - mean) / std).square() - 0.5 * torch.log(2.0 * torch.pi * std.square())
    return (inner - mass.log()).sum(-1)


def normal_cdf(x: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf(x / 2.0**0.5))


def normal_density(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x.square()) / (2.0 * torch.pi) ** 0.5
