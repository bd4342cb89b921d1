"""Mixtures against torch.distributions, and what temperature does to a draw."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributions as D

from rl_lightning.functional.mixture import (
    joint_mixture_log_prob,
    joint_mixture_sample,
    kl_to_standard_normal,
    mixture_log_prob,
    mixture_sample,
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(0, 50), st.integers(1, 5))
def test_kl_is_that_of_torch(seed, width):
    mean, log_var = drawn(3, width, seed=seed), drawn(3, width, seed=seed + 1)
    ours = kl_to_standard_normal(mean, log_var)
    theirs = D.kl_divergence(D.Normal(mean, (0.5 * log_var).exp()), D.Normal(0.0, 1.0)).sum(-1)
    assert torch.allclose(ours, theirs, atol=1e-5, rtol=1e-4)


def test_kl_takes_a_log_variance_and_not_a_log_std():
    """N(0, sigma 2): log-variance log 4. Taken for a log-std, sigma would be 4."""
    kl = kl_to_standard_normal(torch.zeros(1, 1), torch.full((1, 1), math.log(4.0)))
    assert kl.item() == pytest.approx(0.5 * (4.0 - math.log(4.0) - 1.0))


@given(st.integers(0, 50), st.sampled_from([1, 2]))
def test_the_density_per_dimension_is_that_of_torch(seed, batch):
    value = drawn(batch, 6, 4, seed=seed)
    logits, mean, log_std = (drawn(batch, 6, 4, 5, seed=seed + k) for k in (1, 2, 3))
    mixture = D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(mean, log_std.exp()))
    ours = mixture_log_prob(value, logits, mean, log_std)
    assert ours.shape == (batch, 6), "a batch of one keeps its axis"
    assert torch.allclose(ours, mixture.log_prob(value).sum(-1), atol=1e-4, rtol=1e-4)


@given(st.integers(0, 50))
def test_the_joint_density_is_that_of_torch(seed):
    value, logits = drawn(2, 6, 4, seed=seed), drawn(2, 6, 5, seed=seed + 1)
    mean, log_std = drawn(2, 6, 5, 4, seed=seed + 2), drawn(2, 6, 5, 4, seed=seed + 3)
    parts = D.Independent(D.Normal(mean, log_std.exp()), 1)
    mixture = D.MixtureSameFamily(D.Categorical(logits=logits), parts)
    assert torch.allclose(
        joint_mixture_log_prob(value, logits, mean, log_std), mixture.log_prob(value), atol=1e-4, rtol=1e-4
    )


def test_far_values_have_a_finite_density():
    logits = mean = torch.zeros(1, 1, 3)
    found = mixture_log_prob(torch.full((1, 1), 1e4), logits, mean, torch.full_like(mean, -7.0))
    assert found.isfinite().all()


def rows(temperature: float, joint: bool, count: int = 20_000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    logits = torch.tensor([0.0, 1.0])
    mean, log_std = torch.tensor([-50.0, 50.0]), torch.tensor([0.0, 0.5])
    noise = torch.randn(count, 1, generator=generator)
    if joint:
        clocks = torch.empty(count, 2).exponential_(generator=generator)
        args = (part.expand(count, 2, 1) for part in (mean[:, None], log_std[:, None]))
        return joint_mixture_sample(logits.expand(count, 2), *args, temperature, clocks, noise)[:, 0]
    clocks = torch.empty(count, 1, 2).exponential_(generator=generator)
    args = (part.expand(count, 1, 2) for part in (logits, mean, log_std))
    return mixture_sample(*args, temperature, clocks, noise)[:, 0]


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.3])
def test_temperature_flattens_the_choice_and_widens_the_draw(temperature, joint):
    found = rows(temperature, joint)
    upper = found > 0
    share = 1 / (1 + math.exp(-1.0 / temperature))
    assert upper.float().mean().item() == pytest.approx(share, abs=0.015)
    assert found[upper].std().item() == pytest.approx(math.exp(0.5) * math.sqrt(temperature), rel=0.03)
    assert found[~upper].std().item() == pytest.approx(math.sqrt(temperature), rel=0.03)
