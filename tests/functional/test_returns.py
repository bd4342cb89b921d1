"""Returns against their quadratic-time definitions and against numbers worked out by hand."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl_lightning.errors import ConfigError
from rl_lightning.functional import returns
from rl_lightning.functional.advantage_estimators import (
    GAE,
    AdvantageEstimator,
    DiscountedReturn,
    LambdaReturn,
    NStepReturn,
)
from rl_lightning.functional.imagined_returns import imagined
from rl_lightning.functional.returns import arrival_lambda_return, arrival_n_step_return

GAMMA = 0.9


def rollout(seed: int, steps: int, envs: int = 3):
    generator = torch.Generator().manual_seed(seed)
    reward, value, next_value = torch.randn(3, steps, envs, generator=generator, dtype=torch.float64)
    terminated = torch.rand(steps, envs, generator=generator) < 0.15
    done = terminated | (torch.rand(steps, envs, generator=generator) < 0.15)
    # inside an episode the next value is the next row's value
    next_value[:-1] = torch.where(done[:-1], next_value[:-1], value[1:])
    return returns.RolloutSteps(reward, value, next_value, terminated, done, GAMMA)


def n_step_by_definition(reward, next_value, terminated, done, gamma, n):
    target = torch.zeros_like(reward)
    steps, envs = reward.shape
    for i in range(envs):
        for t in range(steps):
            for k in range(n):
                target[t, i] += gamma**k * reward[t + k, i]
                if done[t + k, i] or t + k == steps - 1 or k == n - 1:
                    alive = 1.0 - float(terminated[t + k, i])
                    target[t, i] += gamma ** (k + 1) * alive * next_value[t + k, i]
                    break
    return target


def lambda_by_definition(reward, next_value, terminated, done, gamma, lam):
    """The exponentially weighted mean of all n-step returns; those past the end equal the longest one."""
    steps = len(reward)
    total = lam**steps * n_step_by_definition(reward, next_value, terminated, done, gamma, steps)
    for n in range(1, steps + 1):
        step_return = n_step_by_definition(reward, next_value, terminated, done, gamma, n)
        total += (1 - lam) * lam ** (n - 1) * step_return
    return total


cases = given(st.integers(0, 10_000), st.integers(1, 9), st.floats(0.0, 1.0))


@cases
@settings(max_examples=25, deadline=None)
def test_lambda_return_is_the_weighted_mean_of_n_step_returns(seed, steps, lam):
    made = rollout(seed, steps)
    reward, _, next_value, terminated, done, _ = made
    ours = returns.lambda_return(made, lam)
    torch.testing.assert_close(ours, lambda_by_definition(reward, next_value, terminated, done, GAMMA, lam))


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 12))
@settings(max_examples=25, deadline=None)
def test_n_step_walks_n_rewards_but_not_past_an_end(seed, steps, n):
    made = rollout(seed, steps)
    reward, _, next_value, terminated, done, _ = made
    ours = returns.n_step_return(made, n)
    torch.testing.assert_close(ours, n_step_by_definition(reward, next_value, terminated, done, GAMMA, n))


@cases
@settings(max_examples=25, deadline=None)
def test_gae_target_is_the_lambda_return(seed, steps, lam):
    made = rollout(seed, steps)
    advantage, target = returns.gae(made, lam)
    expected = returns.lambda_return(made, lam)
    torch.testing.assert_close(target, expected)
    torch.testing.assert_close(advantage, expected - made.value)


@cases
@settings(max_examples=15, deadline=None)
def test_gae_is_the_discounted_sum_of_errors(seed, steps, lam):
    made = rollout(seed, steps)
    made = made._replace(next_value=torch.randn_like(made.value))  # neighbouring rows may disagree
    reward, value, next_value, terminated, done, _ = made
    advantage, _ = returns.gae(made, lam)
    delta = reward + GAMMA * (~terminated).double() * next_value - value
    for i in range(reward.shape[1]):
        for t in range(steps):
            total, weight = 0.0, 1.0
            for k in range(t, steps):
                total += weight * delta[k, i].item()
                weight *= GAMMA * lam * (not done[k, i])
            assert advantage[t, i].item() == pytest.approx(total, abs=1e-9)


def test_golden_gae_with_a_truncation_in_the_middle():
    """gamma 0.5, lam 0.5: step 1 is cut (bootstraps with 8), step 3 terminates (bootstraps with nothing)."""
    column = lambda *numbers: torch.tensor(numbers).unsqueeze(1)  # noqa: E731
    steps = returns.RolloutSteps(
        reward=column(1.0, 2.0, 3.0, 4.0),
        value=column(2.0, 4.0, 6.0, 8.0),
        next_value=column(4.0, 8.0, 8.0, 100.0),
        terminated=column(False, False, False, True),
        episode_end=column(False, True, False, True),
        gamma=0.5,
    )
    advantage, target = returns.gae(steps, 0.5)
    # deltas: 1+2-2=1, 2+4-4=2, 3+4-6=1, 4+0-8=-4; decay 1/4 within an episode
    assert advantage.flatten().tolist() == [1.5, 2.0, 0.0, -4.0]
    assert target.flatten().tolist() == [3.5, 6.0, 6.0, 4.0]


def test_constant_reward_under_a_time_limit_is_worth_the_infinite_sum():
    """Reward 1, a limit of 10 steps and gamma 0.9: with V = 10 everywhere nothing is left to learn."""
    ones = torch.ones(10, 1)
    done = torch.zeros(10, 1, dtype=torch.bool)
    done[4] = done[9] = True
    never = torch.zeros_like(done)
    advantage, target = returns.gae(returns.RolloutSteps(ones, 10 * ones, 10 * ones, never, done, 0.9), 0.95)
    torch.testing.assert_close(advantage, torch.zeros_like(ones), atol=1e-5, rtol=0)
    torch.testing.assert_close(target, 10 * ones)


@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_both_scans_agree_and_leave_their_inputs_alone(seed, steps):
    generator = torch.Generator().manual_seed(seed)
    inputs, decay = torch.rand(2, steps, 2, generator=generator, dtype=torch.float64)
    kept = inputs.clone(), decay.clone()
    fast = returns.reverse_scan(inputs, decay)
    slow = returns.reverse_scan(inputs.clone().requires_grad_(), decay)
    assert slow.requires_grad
    torch.testing.assert_close(fast, slow.detach())
    assert torch.equal(inputs, kept[0]) and torch.equal(decay, kept[1])


def test_lambda_return_is_differentiable_in_reward_and_value():
    made = rollout(3, 5, 2)
    arguments = (made.reward.requires_grad_(), made.next_value.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda r, v: returns.lambda_return(made._replace(reward=r, next_value=v), 0.8), arguments
    )


@pytest.mark.parametrize("recipe", [GAE(0.9), LambdaReturn(0.9), NStepReturn(3), DiscountedReturn()])
def test_recipes_give_target_minus_value(recipe: AdvantageEstimator):
    advantage, target = recipe(*rollout(0, 7))
    torch.testing.assert_close(advantage, target - rollout(0, 7).value)


def test_extremes_of_the_recipes_agree():
    arguments = rollout(1, 7)
    torch.testing.assert_close(GAE(1.0)(*arguments), DiscountedReturn()(*arguments))
    torch.testing.assert_close(GAE(0.0)(*arguments), NStepReturn(1)(*arguments))
    torch.testing.assert_close(NStepReturn(7)(*arguments), LambdaReturn(1.0)(*arguments))


@pytest.mark.parametrize("make", [lambda: GAE(1.5), lambda: LambdaReturn(-0.1), lambda: NStepReturn(0)])
def test_impossible_recipes_are_refused(make):
    with pytest.raises(ConfigError, match="must"):
        make()


def test_imagined_n_steps_by_hand():
    reward = torch.tensor([[9.0], [1.0], [2.0], [3.0]])
    value = torch.tensor([[9.0], [10.0], [20.0], [30.0]])
    live = torch.tensor([[9.0], [0.5], [0.5], [0.5]])
    one = [1 + 0.5 * 10, 2 + 0.5 * 20, 3 + 0.5 * 30]
    two = [1 + 0.5 * one[1], 2 + 0.5 * one[2], one[2]]
    three = [1 + 0.5 * two[1], two[1], one[2]]
    for n, expected in ((1, one), (2, two), (3, three), (7, three)):
        assert arrival_n_step_return(reward, value, live, n)[:, 0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("estimator", "lam"),
    [
        (GAE(0.7), 0.7),
        (LambdaReturn(0.3), 0.3),
        (DiscountedReturn(), 1.0),
        (NStepReturn(1), 0.0),
        (NStepReturn(9), 1.0),
    ],
)
def test_estimators_of_rollouts_serve_imagination_too(estimator, lam):
    draw = torch.Generator().manual_seed(0)
    reward, value, live = (torch.rand(6, 3, generator=draw) for _ in range(3))
    targets = imagined(estimator)(reward, value, live)
    assert targets.first == 0 and targets.critic is targets.actor_target
    torch.testing.assert_close(targets.critic, arrival_lambda_return(reward, value, live, lam))


def test_an_unknown_estimator_names_what_to_derive_from():
    class Mine(AdvantageEstimator):
        def compute(self, steps):
            return steps.reward, steps.value

    with pytest.raises(ConfigError, match=r"Mine is not known.*ImaginedReturns"):
        imagined(Mine())
