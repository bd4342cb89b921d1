"""Planners on problems whose best plan is known: no model, no network, only arithmetic."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl_lightning.errors import ConfigError
from rl_lightning.planning.planners import CEM, MPPI, PlannerNoise, candidates, elite, shifted

PLANNERS = [
    CEM(horizon=4, num_samples=200, num_elites=20, iterations=12, min_std=0.01),
    MPPI(
        horizon=4,
        num_samples=256,
        num_elites=32,
        iterations=20,
        temperature=5.0,
        min_std=0.05,
        num_pi_trajs=0,
    ),
]
named = pytest.mark.parametrize("planner", PLANNERS, ids=lambda p: type(p).__name__)


def towards(target: torch.Tensor):
    """Best at `target` [N, H, A], worse with the square of the distance."""
    return lambda actions: -(actions - target[:, None]).square().sum((2, 3))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def goals(envs: int = 3, horizon: int = 4, width: int = 2) -> torch.Tensor:
    return torch.rand(envs, horizon, width, generator=generator(7)) * 1.6 - 0.8


@named
def test_the_optimum_of_a_quadratic_is_found(planner):
    target = goals()
    plan = planner.plan(towards(target), torch.zeros(3, 4, 2), None)
    assert torch.allclose(plan.mean, target, atol=0.05)
    assert torch.allclose(plan.action, target[:, 0], atol=0.15)
    assert (plan.score > -0.05).all()


@named
def test_an_optimum_outside_the_bounds_is_met_at_the_bound(planner):
    plan = planner.plan(towards(torch.full((1, 4, 2), 3.0)), torch.zeros(1, 4, 2), None)
    assert plan.action.min() > 0.95 and plan.action.max() <= 1.0


@named
def test_true_dynamics_are_planned_through(planner):
    """A point in a plane with x' = x + a/2 must come to the origin: from (0.6, -0.4) in two steps, then rest."""
    start = torch.tensor([[0.6, -0.4]])

    def score(actions):
        place = start[:, None] + 0.5 * actions.cumsum(2)
        return -place.square().sum((2, 3))

    plan = planner.plan(score, torch.zeros(1, 4, 2), None)
    place = start + 0.5 * plan.mean[0].cumsum(0)
    assert plan.mean[0, 0, 0] < -0.9  # as fast as it may
    assert place[1:].abs().max() < 0.1


@named
def test_the_width_never_falls_below_its_floor(planner):
    target = goals()
    plan = planner.plan(towards(target), torch.zeros(3, 4, 2), generator())
    assert plan.std.min() >= planner.min_std
    assert planner.plan(towards(target), torch.zeros(3, 4, 2), generator(), min_std=0.3).std.min() >= 0.3


@named
def test_the_same_generator_gives_the_same_plan(planner):
    score, mean = towards(goals()), torch.zeros(3, 4, 2)
    first, second = (planner.plan(score, mean, generator(5)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not torch.equal(first.mean, planner.plan(score, mean, generator(6)).mean)
    quiet, again = (planner.plan(score, mean, None) for _ in range(2))
    assert torch.equal(quiet.action, again.action)


@named
@pytest.mark.parametrize("explore", [False, True])
def test_envs_planned_together_are_planned_alone(planner, explore):
    target, mean = goals(envs=5), 0.2 * goals(envs=5)
    proposals = 0.9 * target[:, None].expand(5, 6, 4, 2)
    draws = planner.draw(mean, generator(3), proposed=6)
    together = planner.search(towards(target), mean, draws, explore, proposals)
    for n in range(5):
        own = PlannerNoise(*(field[n : n + 1] for field in draws))
        alone = planner.search(
            towards(target[n : n + 1]), mean[n : n + 1], own, explore, proposals[n : n + 1]
        )
        for a, b in zip(together, alone, strict=True):
            assert torch.allclose(a[n : n + 1], b, atol=1e-6)


def test_one_step_of_mppi_by_hand():
    """Three fixed candidates, two elites: weights exp(T * (V - max V)), their mean and spread, then one of them."""
    planner = MPPI(
        horizon=1, num_samples=3, num_elites=2, iterations=1, temperature=0.5, min_std=0.01, num_pi_trajs=0
    )
    noise = torch.tensor([0.5, -0.5, 0.1]).reshape(1, 1, 3, 1, 1) / 2.0  # times max_std 2: the candidates
    value = {0.5: 4.0, -0.5: 2.0, 0.1: -9.0}

    def score(actions):
        return torch.tensor([[value[round(a, 3)] for a in actions.flatten().tolist()]])

    pick = torch.tensor([[1.0, 1e-6]])  # the second elite's clock rings at once
    draws = PlannerNoise(noise, pick, torch.zeros(1, 1))
    plan = planner.search(score, torch.zeros(1, 1, 1), draws, explore=False)
    weights = torch.softmax(torch.tensor([0.0, 0.5 * (2.0 - 4.0)]), 0)
    mean = weights[0] * 0.5 - weights[1] * 0.5
    std = (weights[0] * (0.5 - mean) ** 2 + weights[1] * (-0.5 - mean) ** 2).sqrt()
    assert plan.mean.item() == pytest.approx(mean.item())
    assert plan.std.item() == pytest.approx(std.item())
    assert plan.action.item() == pytest.approx(-0.5), "an elite is taken, not the mean of them"
    assert plan.score.item() == 4.0


def test_elites_are_drawn_by_their_weight():
    planner = MPPI(horizon=1, num_samples=2, num_elites=2, iterations=1, temperature=1.0, num_pi_trajs=1)
    envs = 4000
    mean = torch.zeros(envs, 1, 1)
    proposals = torch.ones(envs, 1, 1, 1)
    noise = torch.full((envs, 1, 1, 1, 1), -1.0)
    draws = planner.draw(mean, generator(1), proposed=1)._replace(noise=noise)
    plan = planner.search(lambda a: a.sum((2, 3)) / 2.0, mean, draws, False, proposals)  # scores 0.5 and -0.5
    share = (plan.action > 0).float().mean().item()
    assert share == pytest.approx(1 / (1 + torch.tensor(-1.0).exp().item()), abs=0.03)


def test_exploring_adds_the_width_as_noise_and_stays_in_bounds():
    planner = PLANNERS[1]
    mean, target = torch.zeros(1, 4, 2), torch.full((1, 4, 2), 0.99)
    draws = planner.draw(mean, generator(2))._replace(jitter=torch.tensor([[30.0, -30.0]]))
    calm = planner.search(towards(target), mean, draws, explore=False)
    wild = planner.search(towards(target), mean, draws, explore=True)
    assert torch.equal(calm.mean, wild.mean), "the warm start carries no noise"
    assert wild.action[0, 0] == 1.0 and wild.action[0, 1] < calm.action[0, 1]


def test_a_cem_action_explores_by_its_own_noise_only():
    loud = CEM(horizon=4, num_samples=50, num_elites=5, iterations=3, exploration_noise=0.3)
    mean = torch.zeros(2, 4, 2)
    draws = loud.draw(mean, generator(0))
    target = goals(envs=2) * 0.1
    calm, noisy = (loud.search(towards(target), mean, draws, explore) for explore in (False, True))
    assert torch.allclose(noisy.action - calm.action, 0.3 * draws.jitter, atol=1e-6)


def test_a_better_proposal_wins():
    planner = MPPI(horizon=4, num_samples=20, num_elites=2, iterations=1, temperature=50.0, num_pi_trajs=1)
    target = torch.full((1, 4, 2), 0.77)
    plan = planner.plan(towards(target), torch.zeros(1, 4, 2), None, target[:, None])
    assert torch.allclose(plan.action, target[:, 0])


def test_momentum_keeps_a_share_of_the_last_mean():
    half = MPPI(
        horizon=1, num_samples=4, num_elites=4, iterations=1, temperature=0.0, momentum=0.5, num_pi_trajs=0
    )
    mean = torch.full((1, 1, 1), 0.4)
    draws = half.draw(mean, generator())
    actions = candidates(mean, torch.full_like(mean, 2.0), draws.noise[:, 0], None)
    plan = half.search(lambda a: torch.zeros(a.shape[:2]), mean, draws, explore=False)
    assert plan.mean.item() == pytest.approx((0.5 * 0.4 + 0.5 * actions.mean()).item(), abs=1e-6)


@named
def test_scores_that_are_no_numbers_are_the_worst(planner):
    target = goals()

    def score(actions):
        value = towards(target)(actions)
        return torch.where(actions[:, :, 0, 0] > target[:, None, 0, 0] + 0.2, torch.nan, value)

    plan = planner.plan(score, torch.zeros(3, 4, 2), None)
    assert torch.allclose(plan.mean, target, atol=0.1)
    nothing = planner.plan(lambda a: torch.full(a.shape[:2], torch.nan), torch.zeros(3, 4, 2), None)
    assert nothing.action.isfinite().all() and nothing.mean.isfinite().all()


def test_a_shifted_plan_begins_one_step_later():
    mean = torch.arange(6.0).reshape(1, 3, 2)
    assert shifted(mean).tolist() == [[[2.0, 3.0], [4.0, 5.0], [0.0, 0.0]]]
    assert not shifted(torch.zeros(2, 3, 1)).any(), "the zero carry of a new episode starts from nothing"


@given(st.integers(1, 4), st.integers(2, 30), st.integers(1, 5))
def test_elites_are_the_best_in_order(envs, count, keep):
    keep = min(keep, count)
    actions = torch.rand(envs, count, 2, 1, generator=generator(count))
    score = torch.rand(envs, count, generator=generator(keep))
    chosen, value = elite(actions, score, keep)
    assert torch.equal(value, score.sort(1, descending=True).values[:, :keep])
    for n in range(envs):
        for k in range(keep):
            assert torch.equal(chosen[n, k], actions[n, score[n].tolist().index(value[n, k].item())])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: CEM(num_elites=20, num_samples=10), "only 10 candidates"),
        (lambda: CEM(horizon=0), "horizon is 0"),
        (lambda: MPPI(num_pi_trajs=512), "below num_samples"),
        (lambda: MPPI(min_std=3.0), "min_std <= max_std"),
        (lambda: MPPI(iterations=0), "iterations is 0"),
    ],
)
def test_a_planner_that_cannot_plan_is_refused(make, says):
    with pytest.raises(ConfigError, match=says):
        make()
