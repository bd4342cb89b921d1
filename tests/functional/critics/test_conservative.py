"""CQL's soft maximum against quadrature, EDAC's diversity at hand-computed values and by finite differences."""

import math

import pytest
import torch

from rl_lightning.functional.critics.conservative import gradient_diversity, soft_maximum


@pytest.mark.parametrize("dims", [1, 3])
def test_the_soft_maximum_is_the_log_of_the_integral(dims):
    """Q = sum(a) on [-1, 1]^A: the integral of exp(Q) is (2 sinh 1)^A, by uniform actions as by others."""
    torch.manual_seed(0)
    exact, count = dims * math.log(2.0 * math.sinh(1.0)), 20_000
    uniform = torch.rand(1, count, dims) * 2 - 1
    # of density (1 + a / 2) / 2 in each dimension: drawn by the inverse of its distribution
    tilted = 2 * (torch.sqrt(0.25 + 2 * torch.rand(1, count, dims)) - 1)
    for action, log_density in (
        (uniform, torch.full((1, count), -dims * math.log(2.0))),
        (tilted, ((1 + tilted / 2) / 2).log().sum(-1)),
    ):
        found = soft_maximum(action.sum(-1)[None], log_density).item() - math.log(count)
        assert found == pytest.approx(exact, abs=0.02)


def test_the_soft_maximum_agrees_with_quadrature_of_any_value():
    grid = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    q = (torch.sin(5 * grid) + grid.square()).expand(2, 3, -1) * torch.tensor([1.0, 2.0])[:, None, None]
    quadrature = torch.trapezoid(q.exp(), grid, dim=-1).log()
    uniform = soft_maximum(q, torch.full((3, 4001), math.log(0.5)).double()) - math.log(4001)
    torch.testing.assert_close(uniform, quadrature, atol=1e-3, rtol=0)


def test_values_and_densities_must_be_of_the_same_actions():
    with pytest.raises(AssertionError):
        soft_maximum(torch.zeros(2, 4, 30), torch.zeros(4, 10))


SIMPLEX = torch.tensor([[1.0, 0.0], [-0.5, math.sqrt(0.75)], [-0.5, -math.sqrt(0.75)]])


@pytest.mark.parametrize(
    ("grads", "expected"),
    [
        ([[3.0, 4.0]] * 5, 5.0),
        ([[1.0, 2.0], [-2.0, -4.0]], -2.0),
        ([[2.0, 0.0], [0.0, 5.0]], 0.0),
        (SIMPLEX.tolist(), -1.5),
    ],
    ids=["alike", "opposite", "orthogonal", "simplex"],
)
def test_diversity_is_the_mean_cosine_over_pairs_counted_twice(grads, expected):
    rows = torch.tensor(grads)[:, None].expand(-1, 4, -1)
    assert gradient_diversity(rows).item() == pytest.approx(expected, abs=1e-5)


def test_one_action_dimension_has_no_gradient():
    grads = torch.randn(4, 6, 1, requires_grad=True)
    (slope,) = torch.autograd.grad(gradient_diversity(grads), grads)
    assert slope.abs().max() < 1e-4
