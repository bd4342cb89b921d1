"""Closed forms: squashing, two-hot numbers, discrete samples, divergences, and returns of imagined trajectories."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from rl_lightning.functional import latent
from rl_lightning.functional.returns import arrival_lambda_return, state_lambda_return


def test_symexp_undoes_symlog():
    x = torch.tensor([0.0, 1e-3, -1.0, 1.0, 1e4, -1e4])
    assert torch.allclose(latent.symexp(latent.symlog(x)), x, rtol=1e-4)
    assert latent.symlog(torch.tensor(math.e - 1)).item() == pytest.approx(1.0)


BINS = {"exponential": latent.two_hot_bins(255, 20.0, True), "linear": latent.two_hot_bins(255, 20.0, False)}


def weights_of(value: float, bins: torch.Tensor) -> torch.Tensor:
    """The target distribution, read from the gradient of the loss: softmax - target."""
    logits = torch.zeros(len(bins), requires_grad=True)
    latent.two_hot_loss(logits, torch.tensor(value), bins).backward()
    return logits.detach().softmax(-1) - logits.grad


@pytest.mark.parametrize("value", [0.0, 1e-3, 1.0, -1.0, 1e4, -1e4, 20.0, -20.0, 7.123])
@pytest.mark.parametrize("kind", BINS)
def test_two_hot_round_trip(kind, value):
    """D10: at most two neighbouring bins, all of the weight, and the mean is the number."""
    bins = BINS[kind]
    value = max(min(value, bins[-1].item()), bins[0].item())
    weight = weights_of(value, bins)
    where = (weight > 1e-6).nonzero().ravel().tolist()
    assert len(where) <= 2 and where[-1] - where[0] <= 1
    assert weight.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert (weight.double() * bins.double())[where].sum().item() == pytest.approx(value, rel=1e-4, abs=1e-5)
    logits = torch.where(weight > 1e-7, weight.clamp_min(1e-30).log(), torch.tensor(-1e9))
    assert latent.two_hot_mean(logits, bins).item() == pytest.approx(value, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", BINS)
def test_equal_logits_mean_exactly_zero(kind):
    """D10, D11: summing 255 bins in their order gives about 1e-3 of the largest instead."""
    bins = BINS[kind]
    assert torch.equal(bins, -bins.flip(0))
    for logits in (torch.zeros(4, 255), torch.full((4, 255), 0.37)):
        assert (latent.two_hot_mean(logits, bins) == 0.0).all()


def test_beyond_the_bins_is_the_last_bin():
    weight = weights_of(1e9, BINS["linear"])
    assert weight[-1].item() == pytest.approx(1.0, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.floats(-19.9, 19.9))
def test_two_hot_loss_is_least_at_its_own_target(value):
    bins = BINS["linear"]
    weight = weights_of(value, bins).clamp_min(1e-12)
    loss = latent.two_hot_loss(weight.log(), torch.tensor(value), bins)
    assert loss.item() == pytest.approx(-(weight * weight.log()).sum().item(), abs=1e-3)


def test_unimix_leaves_no_class_impossible():
    """D9"""
    probs = latent.unimix(torch.tensor([[1000.0, 0.0, 0.0, 0.0]]), 0.01).exp()
    assert probs.min().item() == pytest.approx(0.01 / 4) and probs.sum().item() == pytest.approx(1.0)
    assert torch.equal(latent.unimix(torch.zeros(3), 0.0), torch.zeros(3).log_softmax(-1))


def test_categorical_kl_sums_over_the_variables():
    """D7"""
    q, p = torch.randn(6, 32, 8), torch.randn(6, 32, 8)
    ours = latent.categorical_kl(q.log_softmax(-1), p.log_softmax(-1))
    theirs = kl_divergence(Independent(Categorical(logits=q), 1), Independent(Categorical(logits=p), 1))
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_gaussian_kl_is_torchs():
    a, b, c, d = torch.randn(6, 5), torch.rand(6, 5) + 0.1, torch.randn(6, 5), torch.rand(6, 5) + 0.1
    theirs = kl_divergence(Independent(Normal(a, b), 1), Independent(Normal(c, d), 1))
    assert torch.allclose(latent.gaussian_kl(a, b, c, d), theirs, atol=1e-4)


def test_where_free_nats_are_free():
    """D6: one state far below and one far above; v1 and v2 clip the mean, v3 each."""
    kl = torch.tensor([0.0, 4.0])
    assert latent.free_nats_kl(kl, 3.0).item() == 3.0
    assert latent.free_nats_kl(kl, 1.0).item() == 2.0
    assert latent.balanced_kl(kl, kl, 0.8, 1.0).item() == pytest.approx(2.0)
    assert latent.balanced_kl(kl, 0.1 * kl, 0.8, 1.0).item() == pytest.approx(0.8 * 2.0 + 0.2 * 1.0)
    assert latent.dyn_rep_kl(kl, kl, 1.0, 0.1, 1.0).item() == pytest.approx(1.1 * (1.0 + 4.0) / 2)


def test_truncated_normal_against_its_own_integral():
    """D17's closed relative: density integrates to 1, entropy is the integral, samples have the right mean."""
    mean, std = torch.tensor([0.7]), torch.tensor([0.5])
    grid = torch.linspace(-1, 1, 20_001).unsqueeze(-1)
    log_prob = latent.truncated_normal_log_prob(mean, std, grid)
    step = grid[1, 0] - grid[0, 0]
    assert (log_prob.exp().sum() * step).item() == pytest.approx(1.0, abs=1e-3)
    entropy = -(log_prob.exp() * log_prob).sum() * step
    assert latent.truncated_normal_entropy(mean, std).item() == pytest.approx(entropy.item(), abs=1e-3)
    uniform = (torch.arange(10_000).unsqueeze(-1) + 0.5) / 10_000
    drawn = latent.truncated_normal_sample(mean, std, uniform)
    assert drawn.abs().max() < 1 and drawn.mean().item() == pytest.approx(
        (log_prob.exp() * grid[:, 0]).sum().item() * step.item(), abs=1e-3
    )
    far = torch.tensor([3.0], requires_grad=True)
    latent.truncated_normal_sample(far, std, torch.tensor([0.5])).backward()
    assert torch.isfinite(far.grad).all()


def by_definition(reward, value, live, lam, own: bool):
    """The lambda-weighted mean of all n-step returns, written out."""
    steps = len(reward) - 1
    found = torch.zeros(steps, reward.shape[1])
    for t in range(steps):
        ahead = []  # n-step returns, n = 1 ... H - t
        total, discount = torch.zeros_like(reward[0]), torch.ones_like(reward[0])
        for k in range(t, steps):
            at = k if own else k + 1
            total = total + discount * reward[at]
            discount = discount * live[at]
            ahead.append(total + discount * value[k + 1])
        mix = torch.zeros_like(total)
        for n, each in enumerate(ahead):
            mix = mix + ((1 - lam) * lam**n if n < len(ahead) - 1 else lam**n) * each
        found[t] = mix
    return found


@pytest.mark.parametrize("own", [False, True], ids=["v3", "v1-v2"])
@pytest.mark.parametrize("steps", [1, 2, 15])
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
def test_lambda_returns_against_the_quadratic_definition(own, steps, lam):
    """D3, with gradients: the scan is differentiable in all it takes."""
    torch.manual_seed(steps)
    inputs = [torch.randn(steps + 1, 3), torch.randn(steps + 1, 3), torch.rand(steps + 1, 3)]
    ours = [x.clone().requires_grad_() for x in inputs]
    theirs = [x.clone().requires_grad_() for x in inputs]
    rule = state_lambda_return if own else arrival_lambda_return
    one, two = rule(*ours, lam), by_definition(*theirs, lam, own)
    assert torch.allclose(one, two, atol=1e-5)
    with torch.no_grad():
        assert torch.allclose(rule(*inputs, lam), two, atol=1e-5)
    one.square().sum().backward()
    two.square().sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a.grad, b.grad if b.grad is not None else torch.zeros_like(a), atol=1e-4)


def test_golden_returns():
    """Rewards 1, 2, 3 on arriving at states 1 to 3, value 10 everywhere, half of it left each step."""
    reward, value = torch.tensor([[9.0], [1.0], [2.0], [3.0]]), torch.full((4, 1), 10.0)
    live = torch.full((4, 1), 0.5)
    assert arrival_lambda_return(reward, value, live, 0.0).ravel().tolist() == [6.0, 7.0, 8.0]
    assert arrival_lambda_return(reward, value, live, 1.0).ravel().tolist() == [4.0, 6.0, 8.0]
    assert state_lambda_return(reward, value, live, 0.0).ravel().tolist() == [14.0, 6.0, 7.0]
    assert state_lambda_return(reward, value, live, 1.0).ravel().tolist() == [11.25, 4.5, 7.0]
    over = live.clone()
    over[2] = 0.0  # the episode ends on arriving at state 2
    assert arrival_lambda_return(reward, value, over, 1.0).ravel().tolist() == [2.0, 2.0, 8.0]
    lam = torch.tensor([[0.0], [1.0], [0.0], [1.0]])  # a cut at state 2: its value is taken there
    assert arrival_lambda_return(reward, value, live, lam).ravel().tolist() == [1 + 0.5 * 7.0, 7.0, 8.0]
