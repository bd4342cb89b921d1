"""Penalties against the table of their values, their promises over the whole range, and the detector's arithmetic."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.functional.density_penalties import (
    auroc,
    deficit_below_threshold,
    exponential_penalty,
    inverse_penalty,
    linear_penalty,
    percentile_of,
    quantile_grid,
    softplus_penalty,
    tanh_penalty,
)

ALL = [linear_penalty, inverse_penalty, exponential_penalty, tanh_penalty, softplus_penalty]


def test_tanh_in_raw_nats():
    u = 0.1 * deficit_below_threshold(-torch.tensor([0.0, 1.0, 5.0, 10.0, 20.0, -5.0]), 0.0)
    expected = torch.tensor([0.0, 0.0997, 0.4621, 0.7616, 0.9640, 0.0])
    torch.testing.assert_close(tanh_penalty(u), expected, atol=5e-5, rtol=0)


def test_linear_with_the_cap_given():
    u = torch.tensor([-2.0, 0.0, 1.0, 3.0, 50.0])
    assert linear_penalty(u, cap=7.5).tolist() == [0.0, 0.0, 1.0, 3.0, 7.5]


def test_softplus_at_the_threshold():
    assert softplus_penalty(deficit_below_threshold(torch.zeros(1), 0.0)).item() == pytest.approx(
        0.6931, abs=5e-5
    )


def test_inverse_and_exponential_by_hand():
    u = torch.tensor([-1.0, 0.0, 1.0, 2.0])
    e = np.e
    np.testing.assert_allclose(inverse_penalty(u, cap=5.0), [0.0, 0.0, e - 1, 4.0], rtol=1e-6)
    np.testing.assert_allclose(exponential_penalty(u, cap=5.0), [0.0, 0.0, e - 1, 5.0], rtol=1e-6)


@pytest.mark.parametrize("penalty", ALL, ids=lambda f: f.__name__)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_bounded_monotone_finite_and_never_a_bonus(penalty, unit):
    score = torch.cat((-torch.logspace(6, -3, 400), torch.linspace(0, 1000, 400)))
    weight = penalty(deficit_below_threshold(score, -3.0, unit))
    assert weight.isfinite().all() and (weight >= 0).all() and (weight <= 5.0).all()
    assert (weight.diff() <= 1e-6).all(), "a higher score must not cost more"
    if penalty is not softplus_penalty:
        assert (weight[score >= -3.0] == 0).all()
        assert weight[0] > 0.9
    strange = penalty(
        deficit_below_threshold(torch.tensor([float("nan"), -float("inf"), float("inf")]), 0.0, unit)
    )
    assert strange[0] == strange[1] == weight.max() and strange[2] == 0.0


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=60), st.floats(0, 100))
def test_percentiles_are_numpys(values, percentile):
    scores = torch.tensor(values)
    exact = quantile_grid(scores, points=len(values))
    found = percentile_of(exact, percentile).item()
    assert found == pytest.approx(np.percentile(np.asarray(values, np.float64), percentile), abs=1e-9)


def test_grid_keeps_the_tail():
    scores = torch.randn(50_000, generator=torch.Generator().manual_seed(0))
    grid = quantile_grid(scores)
    for percentile in (0.5, 1.0, 1.25, 5.0, 99.0):
        exact = np.percentile(scores.double().numpy(), percentile)
        assert percentile_of(grid, percentile).item() == pytest.approx(exact, abs=1e-2)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20), st.lists(st.integers(0, 5), min_size=1, max_size=20)
)
def test_auroc_is_the_share_of_ordered_pairs(inside, outside):
    pairs = [(a > b) + 0.5 * (a == b) for a in inside for b in outside]
    assert auroc(torch.tensor(inside), torch.tensor(outside)) == pytest.approx(np.mean(pairs))
