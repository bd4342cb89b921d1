"""Activations of our own against torch's: values, gradients, and numbers of any size."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from rl_lightning.kernels.activations import mish, sim_norm, sparse_dropout


def both(ours, theirs, x):
    found = []
    for function in (ours, theirs):
        own = x.clone().requires_grad_()
        out = function(own)
        weight = torch.linspace(-1, 2, out.numel()).view_as(out)
        found.append((out.detach(), torch.autograd.grad((weight * out).sum(), own)[0]))
    return found


@given(st.integers(0, 100), st.sampled_from([0.1, 1.0, 10.0, 100.0]))
def test_mish_is_torch_s(seed, size):
    x = size * torch.randn(7, 5, generator=torch.Generator().manual_seed(seed))
    (ours, our_grad), (theirs, their_grad) = both(mish, F.mish, x)
    assert torch.allclose(ours, theirs, atol=1e-6, rtol=1e-5)
    assert torch.allclose(our_grad, their_grad, atol=1e-5, rtol=1e-4)
    assert torch.allclose(mish(x), theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("x", [-1e4, -88.0, 0.0, 20.0, 44.0, 89.0, 1e4])
def test_mish_of_any_size_is_finite(x):
    (ours, our_grad), (theirs, their_grad) = both(mish, F.mish, torch.tensor([x]))
    assert torch.allclose(ours, theirs, atol=1e-6) and torch.allclose(our_grad, their_grad, atol=1e-6)


@given(st.integers(0, 100), st.sampled_from([0.1, 10.0, 1e4]), st.sampled_from([2, 8]))
def test_sim_norm_is_a_softmax_of_groups(seed, size, group):
    x = size * torch.randn(3, 16, generator=torch.Generator().manual_seed(seed))

    def plain(rows):
        return rows.unflatten(-1, (-1, group)).softmax(-1).flatten(-2)

    (ours, our_grad), (theirs, their_grad) = both(lambda rows: sim_norm(rows, group), plain, x)
    assert torch.allclose(ours, theirs, atol=1e-6) and torch.allclose(our_grad, their_grad, atol=1e-5)
    assert torch.equal(sim_norm(x, group), ours)


def test_other_precisions_keep_torch_s_own():
    x = torch.randn(4, 8, dtype=torch.float64)
    assert torch.equal(mish(x), F.mish(x))
    assert torch.equal(sim_norm(x, 4), x.unflatten(-1, (-1, 4)).softmax(-1).flatten(-2))


def test_rare_dropout_hits_each_number_with_its_chance_alone():
    """Over many draws: the share, the spread of a binomial, no number preferred, and the mean kept."""
    torch.manual_seed(0)
    drawn = torch.stack([sparse_dropout(torch.ones(50, 40), 0.02) for _ in range(1000)])
    hit = drawn == 0
    assert drawn.unique().tolist() == pytest.approx([0.0, 1 / 0.98])
    count = hit.flatten(1).sum(1).double()
    assert count.mean() == pytest.approx(40.0, abs=0.8)  # four deviations of the mean
    assert count.var() == pytest.approx(2000 * 0.02 * 0.98, rel=0.2)
    each = hit.double().mean(0)
    assert each.std() == pytest.approx((0.02 * 0.98 / 1000) ** 0.5, rel=0.1) and each.max() < 0.05
    assert torch.equal(sparse_dropout(drawn[0], 0.0), drawn[0])
    x = torch.ones(1000, requires_grad=True)
    out = sparse_dropout(x, 0.05)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())
