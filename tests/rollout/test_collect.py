"""The collector: rows as they happened, recurrent state zeroed where an episode begins, no aliasing."""

import contracts.toys  # noqa: F401
import numpy as np
import pytest
import torch

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import Collector, reset_carry_rows
from rl_lightning.types import EnvSpec


@pytest.fixture(params=["sync", "async"])
def counter(request):
    config = EnvConfig("rl/Counter-v0", {"episode_length": 6, "jitter": 4}, max_episode_steps=4)
    envs = make_envs(config, 3, request.param)
    yield envs
    envs.close()


def counting(obs, carry, generator, mask=None):
    """Carries the number of steps it has seen, and starts from 100 where it was not zeroed."""
    (seen,) = carry
    return torch.zeros(len(obs), dtype=torch.int64), (seen + 1,)


def test_rows_are_what_the_envs_played(counter):
    collector = Collector(counter, seed=3)
    parts = [
        collector.collect(random_actor(counter.env_spec), steps, torch.Generator()) for steps in (1, 7, 12)
    ]
    obs, first, reward = (
        np.concatenate([getattr(p, k) for p in parts]) for k in ("obs", "is_first", "reward")
    )
    done = np.concatenate([p.terminated | p.truncated for p in parts])
    assert ((obs[..., 1] == 0) == first).all()
    assert (first[1:] == done[:-1]).all() and first[0].all()
    np.testing.assert_array_equal(reward, obs[..., 1] + 1)
    same = obs[1:, :, 0] == obs[:-1, :, 0]
    assert (same == ~done[:-1]).all()
    for part in parts:
        assert sorted((t, n) for t, n, _ in part.ends) == [
            tuple(map(int, p)) for p in np.argwhere(done_of(part))
        ]
        for t, n, last in part.ends:
            assert last.tolist() == [part.obs[t, n, 0], part.obs[t, n, 1] + 1], "the true last observation"


def done_of(part):
    return part.terminated | part.truncated


def test_rows_are_not_overwritten_by_later_steps(counter):
    """Vector envs hand out the same array every step."""
    collector = Collector(counter, seed=3)
    steps = collector.collect(random_actor(counter.env_spec), 5, torch.Generator())
    kept = [steps.obs.copy(), steps.last_obs.copy(), [last.copy() for _, _, last in steps.ends]]
    collector.collect(random_actor(counter.env_spec), 5, torch.Generator())
    np.testing.assert_array_equal(steps.obs, kept[0])
    np.testing.assert_array_equal(steps.last_obs, kept[1])
    for (_, _, last), before in zip(steps.ends, kept[2], strict=True):
        np.testing.assert_array_equal(last, before)


def test_carry_is_zeroed_where_an_episode_begins(counter):
    collector = Collector(counter, seed=3)
    collector.carry = (
        torch.full((3, 2), 100.0),
    )  # garbage from before: the first observation is a first one
    for steps in (1, 4, 9):
        played = collector.collect(counting, steps, None)
        age = played.obs[-1, :, 1]  # steps taken in the episode before the last one
        np.testing.assert_array_equal(collector.carry[0].numpy(), (age + 1)[:, None].repeat(2, 1))


def test_carry_of_a_rollout_is_from_before_its_first_step(counter):
    collector = Collector(counter, seed=3)
    collector.carry = (torch.zeros(3, 2),)
    collector.collect(counting, 3, None)
    before = collector.carry
    rollout = collector.collect(counting, 2, None).rollout(before, collector.carry)
    assert rollout.carry is before and rollout.last_carry is collector.carry
    assert not torch.equal(rollout.carry[0], rollout.last_carry[0])


def test_a_rollout_names_the_last_observations_of_cut_episodes_only(counter):
    collector = Collector(counter, seed=3)
    steps = collector.collect(random_actor(counter.env_spec), 30, torch.Generator())
    rollout = steps.rollout((), ())
    cut = rollout.truncated & ~rollout.terminated
    assert cut.any() and rollout.terminated.any()
    where = cut.nonzero()
    assert len(rollout.final_obs) == len(where)
    for (t, n), last in zip(where.tolist(), rollout.final_obs, strict=True):
        assert last.tolist() == [rollout.obs[t, n, 0].item(), rollout.obs[t, n, 1].item() + 1]


def test_episodes_are_told_once_with_raw_return_and_length(counter):
    collector = Collector(counter, seed=3)
    steps = collector.collect(random_actor(counter.env_spec), 30, torch.Generator())
    episodes = collector.drain()
    assert len(episodes) == len(steps.ends) and collector.drain() == []
    assert {e.episode_return for e in episodes} <= {float(sum(range(1, e.length + 1))) for e in episodes}


def test_zero_rows_keeps_the_others():
    carry = (torch.ones(3, 2), torch.ones(3, 4, 5))
    zeroed = reset_carry_rows(carry, np.array([True, False, True]))
    assert [part.flatten(1).sum(1).tolist() for part in zeroed] == [[0, 2, 0], [0, 20, 0]]
    assert reset_carry_rows((), np.array([True])) == ()


def test_masks_belong_to_their_observations():
    envs = make_envs(EnvConfig("rl/Masked-v0", {"num_actions": 4, "episode_length": 5}), 2)
    collector = Collector(envs, seed=0)
    act = random_actor(envs.env_spec)
    for _ in range(3):
        steps = collector.collect(act, 7, torch.Generator())
        chosen = np.take_along_axis(steps.mask, steps.action[..., None], -1)
        assert chosen.all(), "an illegal action was played"
        assert (steps.reward >= 0).all()
    assert steps.last_mask is not None and steps.last_mask.any(-1).all()


class OneLife:
    """Envs in which env 0 loses a life: the row ends, the game and its record go on."""

    num_envs, env_spec = 2, EnvSpec("fake", (1,), action_kind="discrete", action_sizes=(2,))

    def reset(self, seed=None):
        return np.zeros((2, 1), np.float32), {}

    def step(self, action):
        record = {"return": np.zeros(2), "length": np.zeros(2, np.int64)}
        infos = {"final_obs": np.ones((2, 1), np.float32), "episode": record}
        return (
            np.zeros((2, 1), np.float32),
            np.ones(2, np.float32),
            np.array([True, False]),
            np.zeros(2, bool),
            infos,
        )


def test_a_lost_life_ends_a_row_but_is_no_episode():
    collector = Collector(OneLife(), seed=0)
    steps = collector.collect(random_actor(OneLife.env_spec), 2, torch.Generator())
    assert [(t, n) for t, n, _ in steps.ends] == [(0, 0), (1, 0)]
    assert collector.drain() == []


SPECS = {
    "discrete": EnvSpec("e", (1,), action_kind="discrete", action_sizes=(3,)),
    "multi": EnvSpec("e", (1,), action_kind="multi_discrete", action_shape=(2,), action_sizes=(3, 2)),
    "continuous": EnvSpec("e", (1,), action_kind="continuous", action_shape=(2,)),
}


@pytest.mark.parametrize("kind", SPECS)
def test_random_actor_covers_the_space_evenly(kind):
    spec = SPECS[kind]
    action, _ = random_actor(spec)(torch.zeros(6000, 1), (), torch.Generator().manual_seed(0))
    assert action.shape == (6000, *spec.action_shape)
    if kind == "continuous":
        assert action.abs().max() <= 1 and action.mean(0).abs().max() < 0.05
        assert (action.std(0) - 3**-0.5).abs().max() < 0.03
    else:
        for column, size in zip(action.reshape(6000, -1).T, spec.action_sizes, strict=True):
            assert (torch.bincount(column, minlength=size) / 6000 - 1 / size).abs().max() < 0.03


def test_random_actor_takes_legal_actions_only():
    spec = SPECS["multi"]
    mask = torch.tensor([[True, False, True, False, True]]).expand(500, -1)
    action, _ = random_actor(spec)(torch.zeros(500, 1), (), torch.Generator().manual_seed(0), mask)
    assert set(action[:, 0].tolist()) == {0, 2} and set(action[:, 1].tolist()) == {1}


@pytest.mark.parametrize("shape", [(1,), (3, 1), (2,)])
def test_actions_of_another_shape_are_refused_and_not_spread_over_the_envs(shape):
    envs = make_envs(EnvConfig("CartPole-v1"), 3)
    collector = Collector(envs, seed=0)
    with pytest.raises(ConfigError, match=r"act gave \[.*\] for 3 observations of CartPole-v1; its discrete"):
        collector.collect(lambda obs, carry, *rest: (torch.zeros(shape), carry), 2, None)
    envs.close()
