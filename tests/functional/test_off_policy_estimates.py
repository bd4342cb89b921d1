"""Importance-weighted and doubly robust values, by hand."""

import math

import pytest
import torch

from rl_lightning.functional.off_policy.importance import (
    doubly_robust,
    episode_layout,
    laid_out,
    spearman,
    weighted_importance_sampling,
    weights,
)

ALIVE = torch.tensor([[True, True], [True, False]])
REWARD = torch.tensor([[1.0, 2.0], [5.0, 0.0]])


def test_episodes_are_laid_out_by_step() -> None:
    place, step = episode_layout(torch.tensor([0, 0, 0, 3, 3]))
    assert place.tolist() == [0, 0, 0, 1, 1] and step.tolist() == [0, 1, 2, 0, 1]
    assert laid_out(torch.arange(5.0), place, step).tolist() == [[0, 1, 2], [3, 4, 0]]


def test_who_acted_himself_is_worth_the_mean_return() -> None:
    same = weighted_importance_sampling(torch.zeros(2, 2), REWARD, ALIVE, 0.5)
    assert same.value == pytest.approx(
        (1.0 + 0.5 * 2.0 + 5.0) / 2
    ) and same.effective_episodes == pytest.approx(2.0)


def test_weights_are_ratios_up_to_each_step() -> None:
    log_ratio = torch.tensor([[math.log(3.0), math.log(2.0)], [0.0, 99.0]])  # the last one is of no step
    expected = torch.tensor([[3 / 4, 6 / 7], [1 / 4, 1 / 7]]).double()
    assert torch.allclose(weights(log_ratio, ALIVE), expected)
    value = weighted_importance_sampling(log_ratio, REWARD, ALIVE, 1.0)
    assert value.value == pytest.approx(3 / 4 * 1 + 1 / 4 * 5 + 6 / 7 * 2)
    assert value.effective_episodes == pytest.approx(1 / ((6 / 7) ** 2 + (1 / 7) ** 2))


def test_a_critic_that_is_right_is_left_alone_whatever_the_weights() -> None:
    """Values of the policy in a world that is known: rewards are what the critic foresaw."""
    log_ratio = torch.tensor([[1.3, -0.4], [-2.0, 0.7]])
    alive = torch.ones(2, 2, dtype=torch.bool)
    reward = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    value = torch.tensor([[1.0 + 0.9 * 2.0, 2.0]] * 2)
    robust = doubly_robust(log_ratio, reward, value, value, torch.zeros(2).double(), alive, 0.9)
    assert robust.value == pytest.approx(2.8)


def test_a_critic_that_says_nothing_leaves_importance_sampling() -> None:
    log_ratio = torch.tensor([[0.3, -0.4], [-0.2, 0.0]])
    nothing = torch.zeros(2, 2)
    robust = doubly_robust(log_ratio, REWARD, nothing, nothing, torch.zeros(2).double(), ALIVE, 0.9)
    assert robust.value == pytest.approx(weighted_importance_sampling(log_ratio, REWARD, ALIVE, 0.9).value)


def test_what_follows_a_cut_episode_counts() -> None:
    nothing = torch.zeros(1, 2)
    alive = torch.ones(1, 2, dtype=torch.bool)
    robust = doubly_robust(nothing, nothing, nothing, nothing, torch.tensor([8.0]).double(), alive, 0.5)
    assert robust.value == pytest.approx(0.5**2 * 8.0)


def test_spearman_is_of_ranks() -> None:
    assert spearman([1.0, 10.0, 100.0], [-3.0, -2.0, 5.0]) == pytest.approx(1.0)
    assert spearman([3.0, 2.0, 1.0], [1.0, 2.0, 3.0]) == pytest.approx(-1.0)
    assert spearman([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]) == pytest.approx(0.8)
    assert math.isnan(spearman([1.0, 1.0], [1.0, 2.0]))
