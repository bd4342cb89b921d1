"""n-step rows by hand, the question of memory, and both buffers behind a real collector."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from replay.naive import Player, pixel_spec, vector_spec

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.errors import ConfigError
from rl_lightning.replay import PrioritizedReplay, Replay
from rl_lightning.replay.frames.frame_buffer import FrameBuffer
from rl_lightning.replay.ring import RingBuffer
from rl_lightning.rollout.collect import Collector
from rl_lightning.types import Steps


def steps_by_hand() -> Steps:
    """One env, six steps of reward 1, 2, 4, ...: step 2 terminates, step 4 is cut; observations count up."""
    obs = np.arange(6, dtype=np.float32).reshape(6, 1, 1)
    flag = np.zeros((6, 1), bool)
    terminated, truncated, is_first = flag.copy(), flag.copy(), flag.copy()
    terminated[2], truncated[4], is_first[[0, 3, 5]] = True, True, True
    reward = 2.0 ** np.arange(6, dtype=np.float32).reshape(6, 1)
    ends = [(2, 0, np.array([20.0], np.float32)), (4, 0, np.array([40.0], np.float32))]
    action = np.zeros((6, 1), np.int64)
    return Steps(obs, action, reward, terminated, truncated, is_first, np.array([[6.0]], np.float32), ends)


@pytest.mark.parametrize("shift", [0, 1, 4])
def test_three_step_rows_by_hand(shift):
    """Also where the ring's head lies anywhere among the rows."""
    spec = vector_spec()._replace(obs_shape=(1,))
    buffer = RingBuffer(spec, 1, 6)
    hand = steps_by_hand()
    if shift:
        buffer.add(Steps(*(None if f is None else f[:shift] for f in hand[:6]), hand.last_obs, []))
    buffer.add(hand)
    index = (torch.arange(6) + shift) % 6
    rows = buffer.gather(index, 3, 0.5)
    assert rows.reward.tolist() == [1 + 1 + 1, 2 + 2, 4, 8 + 8, 16, 32]
    assert rows.discount.tolist() == [0.125, 0.25, 0.5, 0.25, 0.5, 0.5]
    assert rows.terminated.tolist() == [1, 1, 1, 0, 0, 0]
    assert rows.next_obs[:, 0].tolist() == [20, 20, 20, 40, 40, 6]
    assert rows.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


class Beside:
    """An actor for Counter: random, but remembers what it did at each (episode, t)."""

    def __init__(self, spec):
        self.act, self.done = random_actor(spec), {}

    def __call__(self, obs, carry, generator, mask=None):
        action, carry = self.act(obs, carry, generator, mask)
        for where, choice in zip(obs.tolist(), action.tolist(), strict=True):
            self.done[tuple(where)] = choice
        return action, carry


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(
    "recipe",
    [partial(Replay, capacity=61), partial(PrioritizedReplay, capacity=61)],
    ids=["ring", "prioritized"],
)
@pytest.mark.parametrize(("length", "limit"), [(None, 7), (5, 50), (9, 6)], ids=["cut", "ends", "either"])
def test_no_stored_row_crosses_an_episode(vectorization, recipe, length, limit):
    """Counter's observation is (episode, t), its reward t + 1; the ring is filled several times over."""
    config = EnvConfig("rl/Counter-v0", {"episode_length": length, "jitter": 3}, max_episode_steps=limit)
    envs = make_envs(config, 3, vectorization)
    try:
        collector, act = Collector(envs, seed=5), Beside(envs.env_spec)
        buffer, explore = recipe(envs.env_spec, 3), torch.Generator().manual_seed(0)
        for steps in (1, 9, 20, 13):
            buffer.add(collector.collect(act, steps, explore))
            rows = buffer.sample(128, torch.Generator().manual_seed(1), 1, 0.9)
            episode, t = rows.obs.unbind(-1)
            assert torch.equal(rows.next_obs, torch.stack((episode, t + 1), -1))
            assert torch.equal(rows.reward, t + 1)
            assert rows.action.tolist() == [act.done[tuple(where)] for where in rows.obs.tolist()]
            if length is None:
                assert not rows.terminated.any(), "a time limit is not an end"
            many = buffer.sample(128, torch.Generator().manual_seed(2), 4, 1.0)
            walked = many.next_obs[:, 1] - many.obs[:, 1]
            assert torch.equal(many.next_obs[:, 0], many.obs[:, 0]) and ((walked >= 1) & (walked <= 4)).all()
            total = sum((many.obs[:, 1] + k) * (walked >= k) for k in (1, 2, 3, 4))
            assert torch.equal(many.reward, total)
        assert any(rows.terminated) == (length is not None and length <= limit + 3)
    finally:
        envs.close()


def free(monkeypatch, amount: float) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=int(amount)))


def test_a_buffer_that_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    free(monkeypatch, 100e6)
    monkeypatch.setattr(torch, "zeros", lambda *a, **k: pytest.fail("allocated"))
    with pytest.raises(ConfigError, match=r"1,000,000 rows needs 0\.\d GB and 0\.1 GB are free") as refused:
        Replay(wide(), 1, capacity=1_000_000)
    assert "capacity" in str(refused.value) and "auto" in str(refused.value)
    assert len(str(refused.value).splitlines()) <= 3


def wide():
    return vector_spec()._replace(obs_shape=(100,))


def test_auto_takes_half_of_the_free_memory_and_at_most_a_million_rows(monkeypatch):
    row = 4 * (2 * 100 + 1 + 3)
    free(monkeypatch, 2 * 1001 * row)
    assert Replay(wide(), 1, capacity="auto").capacity == 1001
    assert Replay(wide(), 2, capacity="auto").capacity == 1000
    free(monkeypatch, 1e15)
    from rl_lightning.replay.replay_buffer import fit_capacity

    assert fit_capacity("auto", 100, 1) == 1_000_000


@pytest.mark.parametrize("capacity", [0, -5, "lots", 1.5])
def test_a_capacity_that_is_none_is_named(capacity):
    with pytest.raises(ConfigError, match="capacity is"):
        Replay(vector_spec(), 1, capacity=capacity)


def test_the_share_that_is_offered_fits(monkeypatch):
    free(monkeypatch, 5e6)
    with pytest.raises(ConfigError) as refused:
        Replay(wide(), 1, capacity=10**6)
    offered = int(str(refused.value).split("capacity ")[1].split()[0])
    assert Replay(wide(), 1, capacity=offered).capacity == offered


def test_a_ring_too_short_for_its_stacks_is_refused():
    """With fewer slots than a stack and its next frame nothing could ever be drawn: sampling would not end."""
    with pytest.raises(ConfigError, match="capacity"):
        FrameBuffer(pixel_spec(4), 2, 8)


def test_the_smallest_ring_that_is_accepted_can_be_sampled():
    for frames in (1, 2, 4):
        spec = pixel_spec(frames)
        buffer, player = FrameBuffer(spec, 1, frames + 2), Player(spec, 1, seed=0, end=0.2)
        for _ in range(40):
            buffer.add(player.play(1))
            if len(buffer) > 1:
                assert len(buffer.sample(3, torch.Generator().manual_seed(0), 2, 0.9).obs) == 3


@pytest.mark.parametrize(
    "recipe",
    [partial(Replay, capacity=64), partial(PrioritizedReplay, capacity=64)],
    ids=["uniform", "prioritized"],
)
@pytest.mark.parametrize("pixels", [False, True], ids=["rows", "frames"])
def test_sampling_follows_its_generator_alone(recipe, pixels):
    spec = pixel_spec(2) if pixels else vector_spec()
    buffer = recipe(spec, 2)
    buffer.add(Player(spec, 2, seed=0).play(20))
    torch.manual_seed(0)
    state = torch.get_rng_state()
    draws = [buffer.sample(16, torch.Generator().manual_seed(seed), 1, 0.9).index for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("pixels", [False, True], ids=["rows", "frames"])
def test_uniform_sampling_reaches_every_row_alike(pixels):
    from scipy.stats import chisquare

    spec = pixel_spec(2) if pixels else vector_spec()
    buffer, player = Replay(spec, 2, capacity=60), Player(spec, 2, seed=3)
    for _ in range(5):
        buffer.add(player.play(11))
    index = buffer.sample(6000, torch.Generator().manual_seed(0), 1, 0.9).index.numpy()
    places = np.unique(index)
    if pixels:
        every = torch.arange(buffer.capacity)
        assert places.tolist() == every[buffer.store.valid(every)].tolist()
    else:
        assert len(places) == len(buffer)
    assert chisquare(np.bincount(index)[places]).pvalue > 1e-3
