"""Action distributions against torch.distributions and numerical integrals; the PPO loss by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Categorical, Independent, Normal

from rl_lightning.functional import action_distributions


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_categorical_agrees_with_torch():
    logits = torch.randn(5, 7, 4, generator=generator())
    action = torch.randint(4, (5, 7), generator=generator())
    reference = Categorical(logits=logits)
    torch.testing.assert_close(
        action_distributions.categorical_log_prob(logits, action), reference.log_prob(action)
    )
    torch.testing.assert_close(action_distributions.categorical_entropy(logits), reference.entropy())
    log_prob, entropy = action_distributions.categorical_evaluate(logits, action)
    torch.testing.assert_close(log_prob, reference.log_prob(action))
    torch.testing.assert_close(entropy, reference.entropy())


def test_categorical_samples_have_the_right_frequencies():
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    drawn = action_distributions.categorical_sample(probs.log().expand(40_000, 4), generator())
    counts = torch.bincount(drawn, minlength=4)
    chi_square = ((counts - 40_000 * probs).square() / (40_000 * probs)).sum()
    assert chi_square < 16.3  # 0.1 % tail at 3 degrees of freedom


def test_the_generator_alone_decides():
    logits = torch.randn(50, 4, generator=generator())
    torch.manual_seed(1)
    first = action_distributions.categorical_sample(logits, generator(5))
    torch.manual_seed(2)
    assert torch.equal(first, action_distributions.categorical_sample(logits, generator(5)))
    assert not torch.equal(first, action_distributions.categorical_sample(logits, generator(6)))


@given(st.integers(0, 10_000), st.integers(2, 6))
@settings(max_examples=25, deadline=None)
def test_masked_actions_are_never_drawn(seed, actions):
    draws = generator(seed)
    logits = 20 * torch.randn(64, actions, generator=draws)
    mask = torch.rand(64, actions, generator=draws) < 0.4
    mask[torch.arange(64), torch.randint(actions, (64,), generator=draws)] = True
    for action in (
        action_distributions.categorical_sample(logits, draws, mask),
        action_distributions.epsilon_greedy(logits, 0.7, draws, mask),
        action_distributions.epsilon_greedy(logits, 0.0, draws, mask),
    ):
        assert mask.gather(1, action.unsqueeze(1)).all()


def test_masking_renormalises_without_nan():
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True]])
    reference = Categorical(logits=torch.tensor([[1.0, 3.0]]))
    entropy = action_distributions.categorical_entropy(logits, mask)
    torch.testing.assert_close(entropy, reference.entropy())
    log_prob = action_distributions.categorical_log_prob(logits, torch.tensor([2]), mask)
    torch.testing.assert_close(log_prob, reference.log_prob(torch.tensor([1])))
    (entropy + log_prob).sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all() and logits.grad[0, 1] == 0


def test_epsilon_greedy_explores_as_often_as_told():
    q = torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(20_000, 4)
    assert (action_distributions.epsilon_greedy(q, 0.0, generator()) == 1).all()
    share = (action_distributions.epsilon_greedy(q, 0.4, generator()) == 1).float().mean().item()
    assert share == pytest.approx(0.6 + 0.4 / 4, abs=0.02)


def test_gaussian_agrees_with_torch():
    mean, log_std, action = torch.randn(3, 6, 2, generator=generator())
    reference = Independent(Normal(mean, log_std.exp()), 1)
    torch.testing.assert_close(
        action_distributions.gaussian_log_prob(mean, log_std, action), reference.log_prob(action)
    )
    torch.testing.assert_close(action_distributions.gaussian_entropy(log_std), reference.entropy())
    noise = action_distributions.standard_noise(mean.shape, generator(), mean)
    torch.testing.assert_close(
        action_distributions.gaussian_sample(mean, log_std, noise), mean + log_std.exp() * noise
    )


def test_squashed_density_integrates_to_one():
    mean, log_std = torch.tensor([0.4], dtype=torch.float64), torch.tensor([-0.7], dtype=torch.float64)
    grid = torch.linspace(-1, 1, 200_001, dtype=torch.float64)[1:-1, None]
    density = action_distributions.squashed_log_prob(mean, log_std, grid).exp()
    assert torch.trapezoid(density, grid.squeeze(1)).item() == pytest.approx(1.0, abs=1e-4)


@given(st.floats(-2, 2), st.floats(-2, 1), st.floats(-2, 2))
@settings(max_examples=30, deadline=None)
def test_squashed_density_is_the_numerical_change_of_variables(mean, log_std, noise):
    """Probability of a small interval before tanh, divided by its length after tanh."""
    double = lambda x: torch.tensor([x], dtype=torch.float64)  # noqa: E731
    action, log_prob = action_distributions.squashed_sample(double(mean), double(log_std), double(noise))
    raw, width = mean + math.exp(log_std) * noise, 1e-4
    normal = Normal(double(mean), double(log_std).exp())
    mass = normal.cdf(double(raw + width)) - normal.cdf(double(raw - width))
    length = math.tanh(raw + width) - math.tanh(raw - width)
    assert log_prob.item() == pytest.approx(math.log(mass.item() / length), abs=1e-3)
    assert action.item() == pytest.approx(math.tanh(raw))


def test_squashed_sample_and_log_prob_agree():
    mean, log_std, noise = 0.5 * torch.randn(3, 100, 3, generator=generator())
    action, log_prob = action_distributions.squashed_sample(mean, log_std, noise)
    torch.testing.assert_close(
        action_distributions.squashed_log_prob(mean, log_std, action), log_prob, atol=1e-3, rtol=1e-3
    )


def test_squashed_log_prob_stays_finite_in_the_tails():
    mean = torch.tensor([[30.0], [-30.0]], requires_grad=True)
    action, log_prob = action_distributions.squashed_sample(mean, torch.zeros(2, 1), torch.zeros(2, 1))
    # at u = 30 the slope of tanh is 4 exp(-60)
    assert log_prob.tolist() == pytest.approx(
        [-0.5 * action_distributions.LOG_2PI + 60 - 2 * math.log(2)] * 2, rel=1e-5
    )
    log_prob.sum().backward()
    assert mean.grad is not None and mean.grad.isfinite().all()
    assert (
        action_distributions.squashed_log_prob(torch.zeros(2, 1), torch.zeros(2, 1), action.sign())
        .isfinite()
        .all()
    )


def test_ppo_loss_of_an_unchanged_policy():
    log_prob = torch.randn(8, generator=generator())
    advantage = torch.randn(8, generator=generator(1))
    loss, kl, clipped = action_distributions.ppo_loss(log_prob, log_prob.clone(), advantage, 0.2)
    torch.testing.assert_close(loss, -advantage.mean())
    assert kl.item() == 0.0 and clipped.item() == 0.0


def test_ppo_gradient_is_zero_for_clipped_samples():
    """Ratios 1.5, 0.5, 1.5, 0.5 with advantages +, -, -, +: only the first two are clipped."""
    log_prob = torch.tensor([1.5, 0.5, 1.5, 0.5]).log().requires_grad_()
    advantage = torch.tensor([1.0, -1.0, -1.0, 1.0])
    loss, _, clipped = action_distributions.ppo_loss(log_prob, torch.zeros(4), advantage, 0.2)
    assert loss.item() == pytest.approx(-(1.2 - 0.8 - 1.5 + 0.5) / 4)
    loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == pytest.approx([0.0, 0.0, 1.5 / 4, -0.5 / 4])
    assert clipped.item() == 1.0
