"""Value targets and losses with numbers worked out by hand."""

import math

import pytest
import torch

from rl_lightning.functional import value


def test_td_target_bootstraps_unless_terminated():
    target = value.td_target(
        torch.tensor([1.0, 1.0]),
        torch.tensor([10.0, 10.0]),
        torch.tensor([0.0, 1.0]),
        torch.tensor([0.9, 0.9]),
    )
    assert target.tolist() == pytest.approx([10.0, 1.0])


def test_td_target_takes_bool_flags():
    flags = torch.tensor([False, True])
    assert value.td_target(torch.ones(2), torch.ones(2), flags, 0.5).tolist() == [1.5, 1.0]


def test_double_q_takes_the_slow_value_of_the_online_choice():
    online, slow = torch.tensor([[1.0, 5.0, 2.0]]), torch.tensor([[9.0, 3.0, 7.0]])
    assert value.double_q_value(online, slow).tolist() == [3.0]
    assert value.max_q_value(slow).tolist() == [9.0]


def test_illegal_actions_are_never_the_best():
    online, slow = torch.tensor([[1.0, 5.0, 2.0]]), torch.tensor([[9.0, 3.0, 7.0]])
    mask = torch.tensor([[False, False, True]])
    assert value.double_q_value(online, slow, mask).tolist() == [7.0]
    assert value.max_q_value(slow, mask).tolist() == [7.0]


def test_huber_matches_torch():
    error = torch.linspace(-3, 3, 13)
    expected = torch.nn.functional.huber_loss(error, torch.zeros_like(error), delta=1.5, reduction="none")
    torch.testing.assert_close(value.huber(error, 1.5), expected)


def test_value_loss_without_clip_is_half_the_squared_error():
    now, target = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 1.0])
    assert value.clipped_value_loss(now, now, target, None).item() == pytest.approx(0.5 * 2.5)


def test_clipped_value_loss_takes_the_larger_error_and_stops_there():
    """Moved from 0 to 1 towards the target 2 with clip 0.2: the error is that of 0.2, without gradient."""
    now = torch.tensor([1.0], requires_grad=True)
    loss = value.clipped_value_loss(now, torch.zeros(1), torch.tensor([2.0]), 0.2)
    assert loss.item() == pytest.approx(0.5 * 1.8**2)
    loss.backward()
    assert now.grad is not None and now.grad.item() == 0.0


def test_explained_variance():
    target = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert value.explained_variance(target, target).item() == 1.0
    assert value.explained_variance(torch.zeros(4), target).item() == pytest.approx(0.0)
    assert value.explained_variance(-target, target).item() == pytest.approx(-3.0)
    assert value.explained_variance(target, torch.ones(4)).isnan()


def test_polyak_moves_by_exactly_its_rate():
    slow = [torch.nn.Parameter(torch.zeros(3)), torch.nn.Parameter(torch.full((2, 2), 4.0))]
    fast = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.zeros(2, 2))]
    value.polyak_update(slow, fast, 0.25)
    assert slow[0].tolist() == [0.25] * 3
    assert slow[1].flatten().tolist() == [3.0] * 4
    assert fast[0].tolist() == [1.0] * 3
    value.polyak_update(slow, fast, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(slow, fast, strict=True))


def test_expectile_at_half_is_half_the_mean_square():
    assert value.expectile_loss(torch.tensor([-2.0, 3.0]), 0.5).item() == pytest.approx(0.5 * 6.5)


def test_expectile_loss_by_hand():
    assert value.expectile_loss(torch.tensor([-2.0, 3.0]), 0.9).item() == pytest.approx(
        (0.1 * 4 + 0.9 * 9) / 2
    )


@pytest.mark.parametrize("level", [0.1, 0.5, 0.7, 0.99])
def test_the_minimiser_of_the_expectile_loss_is_the_expectile(level):
    """At it, `level` of the distance above balances `1 - level` of the distance below."""
    sample = torch.randn(2000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    low, high = sample.min().item(), sample.max().item()
    for _ in range(60):  # the slope of the loss rises with the guess
        guess = torch.tensor((low + high) / 2, dtype=torch.float64, requires_grad=True)
        value.expectile_loss(sample - guess, level).backward()
        low, high = (low, guess.item()) if guess.grad > 0 else (guess.item(), high)
    above, below = (sample - low).clamp_min(0).mean(), (low - sample).clamp_min(0).mean()
    assert (level * above).item() == pytest.approx(((1 - level) * below).item(), rel=1e-5)
    if level == 0.5:
        assert low == pytest.approx(sample.mean().item(), abs=1e-6)


def test_advantage_weights_are_exponential_up_to_their_limit():
    weight = value.exp_advantage_weight(torch.tensor([-1.0, 0.0, 0.5, 2.0, 1e6]), 3.0, 100.0)
    expected = [math.exp(-3), 1.0, math.exp(1.5), 100.0, 100.0]
    assert weight.tolist() == pytest.approx(expected, rel=1e-5)
    assert value.exp_advantage_weight(torch.randn(5), 0.0, 100.0).tolist() == [1.0] * 5


def test_soft_clipped_q_lies_between_the_critics():
    q = torch.tensor([[1.0, 5.0], [3.0, 1.0]])
    assert value.soft_clipped_double_q(q, 0.75).tolist() == pytest.approx([1.5, 2.0])
    assert value.soft_clipped_double_q(q, 1.0).tolist() == q.amin(0).tolist()
    assert value.soft_clipped_double_q(q, 0.0).tolist() == q.amax(0).tolist()


def test_inverse_scale_has_no_gradient_and_survives_zeros():
    q = torch.tensor([-2.0, 4.0], requires_grad=True)
    scale = value.inverse_scale(q)
    assert scale.item() == pytest.approx(1 / 3) and not scale.requires_grad
    assert torch.isfinite(value.inverse_scale(torch.zeros(3)))
