"""Imagined rollouts: what is kept, what goes on, and where random numbers come from."""

import pytest
import torch

from rl_lightning.envs.termination import NoTermination, Termination
from rl_lightning.errors import ConfigError
from rl_lightning.models.dynamics.ensemble_dynamics import EnsembleDynamics, ModelStep
from rl_lightning.rollout.imagine import imagine, with_random_noise_scale

WIDTH = 2


class Counting:
    """A world in which everything grows by one; from `bad_at` on the reward is not a number."""

    def __init__(self, bad_at: float = float("inf")) -> None:
        self.bad_at, self.spreads = bad_at, []

    def step(self, obs, action, generator, spread=False):
        self.spreads.append(spread)
        next_obs = obs + 1.0
        reward = torch.where(next_obs[:, 0] >= self.bad_at, torch.nan, obs[:, 0])
        return ModelStep(next_obs, reward, obs[:, 1] if spread else None)


class Past(Termination):
    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def is_terminal(self, next_obs):
        return next_obs[..., 0] >= self.limit


class Constant:
    def __init__(self, needs_spread: bool = False) -> None:
        self.needs_spread, self.asked = needs_spread, 0

    def __call__(self, obs, action, step):
        self.asked += 1
        weight = step.spread if self.needs_spread else torch.full_like(step.reward, 2.0)
        return weight, obs[:, 0] < 1.0


def act(obs, carry, generator, mask=None):
    noise = torch.zeros(len(obs), 1) if generator is None else torch.randn(len(obs), 1, generator=generator)
    return noise, carry


def seeds(*numbers: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(number) for number in numbers]


START = torch.tensor([[0.0, 10.0], [2.0, 20.0], [1.0, 30.0]])


def test_rows_come_in_order_of_time_and_only_the_living_go_on():
    found = imagine(Counting(), act, START, 3, Past(3.0), *seeds(0, 1))
    assert found.start.tolist() == [0, 1, 2, 0, 2, 0]
    assert found.obs[:, 0].tolist() == [0, 2, 1, 1, 2, 2]
    assert found.obs[:, 1].tolist() == [10, 20, 30, 11, 31, 12]
    assert torch.equal(found.next_obs, found.obs + 1.0)
    assert found.terminated.tolist() == [0, 1, 0, 0, 1, 1] and found.terminated.dtype == torch.float32
    assert torch.equal(found.reward, found.raw_reward) and not found.penalty.any() and not found.below.any()
    assert found.action.shape == (6, 1) and found.starts == 3 and found.dropped == 0


def test_it_ends_when_none_is_left():
    found = imagine(Counting(), act, START, 50, Past(3.0), *seeds(0, 1))
    assert len(found.obs) == 6


def test_rows_that_are_not_finite_are_dropped_and_counted_and_go_nowhere():
    found = imagine(Counting(bad_at=3.0), act, START, 4, NoTermination(), *seeds(0, 1))
    assert found.start.tolist() == [0, 2, 0] and found.dropped == 3
    assert all(torch.isfinite(field).all() for field in found[:8])
    start = START.clone()
    start[1, 1] = torch.inf
    found = imagine(Counting(), act, start, 1, NoTermination(), *seeds(0, 1))
    assert found.start.tolist() == [0, 2] and found.dropped == 1


def test_nothing_may_be_left_at_all():
    found = imagine(Counting(bad_at=0.0), act, START, 4, NoTermination(), *seeds(0, 1))
    assert len(found.reward) == 0 and found.dropped == 3
    assert found.statistics()["imagine/transitions"] == 0.0


def test_statistics():
    found = imagine(Counting(), act, START, 3, Past(3.0), *seeds(0, 1), Constant(), 0.5)
    assert found.statistics() == {
        "imagine/transitions": 6.0,
        "imagine/length": 2.0,
        "imagine/reward": pytest.approx(8 / 6),
        "imagine/penalty": 2.0,
        "imagine/ood_fraction": pytest.approx(1 / 6),
        "imagine/terminated_fraction": 0.5,
        "imagine/nonfinite": 0.0,
    }


def test_a_penalty_makes_rewards_smaller_by_its_coefficient():
    penalty = Constant()
    found = imagine(Counting(), act, START, 2, NoTermination(), *seeds(0, 1), penalty, 0.25)
    torch.testing.assert_close(found.reward, found.raw_reward - 0.5)
    assert penalty.asked == 2 and found.below.tolist() == [True, False, False, False, False, False]


def test_outside_may_be_the_end_and_is_worth_what_one_says():
    """Of three starts one is outside: its row ends there, and its reward holds the rest; the others go on."""
    found = imagine(Counting(), act, START, 2, NoTermination(), *seeds(0, 1), Constant(), 0.25, -7.0)
    assert found.start.tolist() == [0, 1, 2, 1, 2] and found.terminated.tolist() == [1, 0, 0, 0, 0]
    torch.testing.assert_close(found.reward - found.raw_reward, torch.tensor([-7.5, -0.5, -0.5, -0.5, -0.5]))
    free = imagine(Counting(), act, START, 2, NoTermination(), *seeds(0, 1), Constant(), 0.0, -7.0)
    assert not free.terminated.any() and torch.equal(free.reward, free.raw_reward)


def test_an_unsteady_hand_has_the_spread_of_its_row_and_keeps_within_bounds():
    shaken = with_random_noise_scale(lambda obs, carry, explore, mask=None: (obs, carry), 0.3)
    still = torch.full((20_000, 2), 0.25)
    action, _ = shaken(still, (), torch.Generator().manual_seed(0))
    # a spread drawn evenly between 0 and s has the mean square s^2 / 3
    assert (action - still).std().item() == pytest.approx(0.3 / 3**0.5, rel=0.03)
    assert torch.equal(shaken(still, (), None)[0], still)
    edge, _ = shaken(torch.ones(1000, 2), (), torch.Generator().manual_seed(0))
    assert edge.max() == 1.0 and (edge < 1.0).any()


def test_the_spread_is_computed_only_where_it_is_used():
    for penalty, coefficient, spread in (
        (None, 1.0, False),
        (Constant(), 1.0, False),
        (Constant(True), 1.0, True),
        (Constant(True), 0.0, False),
    ):
        world = Counting()
        found = imagine(world, act, START, 1, NoTermination(), *seeds(0, 1), penalty, coefficient)
        assert world.spreads == [spread]
        if spread:
            assert found.penalty.tolist() == [10.0, 20.0, 30.0]


def ensemble() -> EnsembleDynamics:
    torch.manual_seed(0)
    return EnsembleDynamics(WIDTH, 1, ensemble_size=4, num_elites=3, hidden_dims=[16])


@pytest.mark.parametrize("penalty", [Constant(), Constant(True)], ids=["density", "spread"])
def test_a_coefficient_of_zero_is_no_penalty_bit_for_bit(penalty):
    start = torch.randn(100, WIDTH)
    plain = imagine(ensemble(), act, start, 5, Past(1.5), *seeds(0, 1))
    given = seeds(0, 1)
    weighed = imagine(ensemble(), act, start, 5, Past(1.5), *given, penalty, 0.0)
    for name in ("obs", "action", "reward", "next_obs", "terminated", "raw_reward", "start"):
        assert torch.equal(getattr(plain, name), getattr(weighed, name)), name
    fresh = seeds(0, 1)
    imagine(ensemble(), act, start, 5, Past(1.5), *fresh)
    assert all(torch.equal(a.get_state(), b.get_state()) for a, b in zip(given, fresh, strict=True))


def test_another_coefficient_is_another_reward_of_the_same_rollout():
    start = torch.randn(100, WIDTH)
    one, two = (
        imagine(ensemble(), act, start, 5, NoTermination(), *seeds(0, 1), Constant(), c) for c in (0.5, 1.0)
    )
    assert torch.equal(one.obs, two.obs) and torch.equal(one.raw_reward, two.raw_reward)
    torch.testing.assert_close(one.reward - two.reward, torch.ones(500))


def test_global_random_numbers_are_left_alone_and_no_graph_is_built():
    before, world = torch.get_rng_state(), ensemble()
    found = imagine(world, act, START, 3, NoTermination(), *seeds(0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert not any(field.requires_grad for field in found[:9])


def test_without_exploration_actions_are_greedy():
    found = imagine(Counting(), act, START, 2, NoTermination(), *seeds(0))
    assert not found.action.any()


@pytest.mark.parametrize(("horizon", "count"), [(0, 3), (2, 0)])
def test_a_rollout_of_nothing_is_refused(horizon, count):
    with pytest.raises(ConfigError, match="needs a step and a start"):
        imagine(Counting(), act, START[:count], horizon, NoTermination(), *seeds(0, 1))
