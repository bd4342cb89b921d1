"""The divergence, its conjugate, and the guide's loss."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.functional.dice_losses import conjugate, divergence, guide_loss, ratio_of, value_loss

Y = torch.linspace(-6, 6, 121, dtype=torch.float64)


def test_conjugate_is_the_conjugate():
    """f*(y) = max over x >= 0 of x y - f(x), by looking at a fine grid of x."""
    x = torch.linspace(0, 8, 80_001, dtype=torch.float64)
    found = (Y[:, None] * x - divergence(x)).amax(1)
    assert torch.allclose(conjugate(Y), found, atol=1e-6)


def test_ratio_is_its_slope_and_inverts_the_slope_of_f():
    y = Y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(conjugate(y).sum(), y)
    assert torch.allclose(slope, ratio_of(Y), atol=1e-9)
    x = ratio_of(Y).requires_grad_()
    (back,) = torch.autograd.grad(divergence(x).sum(), x)
    assert torch.allclose(back, Y, atol=1e-8)


def test_smooth_at_zero():
    near = torch.tensor([-1e-7, 0.0, 1e-7], dtype=torch.float64)
    assert torch.allclose(conjugate(near), near, atol=1e-12)
    assert torch.allclose(ratio_of(near), torch.ones(3, dtype=torch.float64), atol=1e-6)


@pytest.mark.parametrize("size", [1e4, 1e8, 1e18])
def test_everything_is_finite_at_any_size(size):
    y = torch.tensor([-size, size, -1e4, 1e4], requires_grad=True)
    loss = conjugate(y).sum()
    assert torch.isfinite(loss) or size == 1e18
    (slope,) = torch.autograd.grad(loss, y)
    assert torch.isfinite(slope).all()
    assert (ratio_of(y) > 0).all()


def test_the_value_of_two_arms():
    """r in {0, 1}, equally likely, alpha 1: V* = 0.37482, where the mean ratio is 1."""
    reward = torch.tensor([0.0, 1.0], dtype=torch.float64)
    value = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([value], lr=0.5, max_iter=200, tolerance_grad=1e-12)

    def closure():
        optimizer.zero_grad()
        both = value.expand(2)
        loss = value_loss(reward - both, both, 1.0)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert float(value) == pytest.approx(0.37482, abs=1e-4)
    assert float(ratio_of(reward - value.detach()).mean()) == pytest.approx(1.0, abs=1e-4)


def test_the_paper_weight_normalises_to_one_minus_gamma():
    reward = torch.tensor([0.0, 1.0], dtype=torch.float64)
    value = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([value], lr=0.5, max_iter=500, tolerance_grad=1e-12)

    def closure():
        optimizer.zero_grad()
        both = value.expand(2)
        loss = value_loss(reward - both, both, 1.0, 0.1)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert float(ratio_of(reward - value.detach()).mean()) == pytest.approx(0.1, abs=1e-4)


def test_the_guide_settles_at_the_log_of_the_mean_ratio():
    ratio = torch.tensor([0.2, 0.5, 3.0], dtype=torch.float64)
    g = torch.linspace(-2, 3, 5001, dtype=torch.float64)
    losses = torch.stack([guide_loss(at.expand(3), ratio) for at in g])
    assert float(g[losses.argmin()]) == pytest.approx(float(ratio.mean().log()), abs=1e-3)


@given(st.floats(-1e4, 1e4), st.floats(1e-13, 100.0))
def test_the_guide_never_explodes(at, ratio):
    g = torch.tensor([at], requires_grad=True)
    loss = guide_loss(g, torch.tensor([ratio]))
    (slope,) = torch.autograd.grad(loss, g)
    assert torch.isfinite(loss) and torch.isfinite(slope).all()


def test_one_far_guide_does_not_silence_the_others():
    """The original scales the whole batch by its largest exponent: one g of -20 stops all learning."""
    g = torch.zeros(100)
    g[0] = -20.0
    g.requires_grad_()
    (slope,) = torch.autograd.grad(guide_loss(g, torch.full((100,), 2.0)), g)
    assert slope[1:].abs().min() > 1e-3
    assert slope[0] < 0
