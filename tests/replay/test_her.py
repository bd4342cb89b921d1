"""Hindsight: whose goals, which rewards, what stays as it was; and the length of bits that tells it from DQN."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from contracts.cases import BY_NAME
from contracts.harness import fit
from gymnasium import spaces

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.envs.make import EnvConfig, describe, make_env, make_envs
from rl_lightning.envs.own_envs import as_env_config
from rl_lightning.errors import ConfigError
from rl_lightning.nn import MLP
from rl_lightning.optim.schedules import Linear
from rl_lightning.replay import HER, Replay
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.rollout.collect import Collector


class Diary(gymnasium.Env):
    """What is achieved names the episode and the step; episodes are of one to six steps, a third of them terminate."""

    count = 0

    def __init__(self):
        pair = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self.observation_space = spaces.Dict({"achieved_goal": pair, "desired_goal": pair, "z": pair})
        self.action_space = spaces.Discrete(3)
        self.t = self.episode = self.length = 0

    def _obs(self):
        here = np.array([self.episode, self.t], np.float32)
        return {"achieved_goal": here, "desired_goal": -here[::-1] - 1, "z": here}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return (achieved_goal == desired_goal).all(-1).astype(np.float32)

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return bool((achieved_goal == desired_goal).all())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        Diary.count += 1
        self.episode, self.t, self.length = Diary.count, 0, int(self.np_random.integers(1, 7))
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        over = self.t >= self.length
        return self._obs(), 0.0, over and self.length % 3 == 0, over and self.length % 3 != 0, {}


def played(strategy="future", steps=200, num_envs=2, capacity=60, k=4, chunk=7):
    """A buffer that went round several times, and the collector that filled it."""
    config = as_env_config(Diary)
    envs = make_envs(config, num_envs)
    buffer = HER(
        envs.env_spec, num_envs, capacity=capacity, n_sampled_goal=k, goal_selection_strategy=strategy
    )
    buffer.use_env(config)
    collector, draw = Collector(envs, 0), torch.Generator().manual_seed(0)
    for _ in range(steps // chunk):
        buffer.add(collector.collect(random_actor(envs.env_spec), chunk, draw))
    return buffer, collector, draw


def drawn(buffer, count=4000, seed=3):
    return buffer.sample(count, torch.Generator().manual_seed(seed), 1, 0.9)


@pytest.mark.parametrize("strategy", ["future", "final"])
def test_goals_are_of_the_same_episode_and_not_of_the_past(strategy):
    buffer, _, _ = played(strategy)
    rows = drawn(buffer)
    achieved, wanted = rows.next_obs[:, :2], rows.obs[:, 2:4]
    assert torch.equal(wanted, rows.next_obs[:, 2:4]) or (wanted >= 0).any()
    new = (wanted >= 0).all(-1)
    assert new.float().mean().item() == pytest.approx(0.8, abs=0.03)
    assert torch.equal(rows.next_obs[new, 2:4], wanted[new])
    assert torch.equal(wanted[new, 0], achieved[new, 0]) and (wanted[new, 1] >= achieved[new, 1]).all()
    hit = (wanted == achieved).all(-1)
    assert torch.equal(rows.reward, (hit & new).float())  # the goal just reached is a success
    assert torch.equal(rows.terminated[new] > 0, hit[new])
    if strategy == "future":
        assert (wanted[new, 1] > achieved[new, 1]).any()
    else:  # one goal for all rows of an episode
        goals = {(int(e), int(t)) for e, t in wanted[new]}
        assert len(goals) == len({e for e, _ in goals})


def test_other_rows_are_as_they_were_played():
    buffer, _, _ = played(k=1)
    rows = drawn(buffer)
    old = (rows.obs[:, 2:4] < 0).all(-1)
    kept = buffer.ring.gather(rows.index, 1, 0.9)
    assert old.float().mean().item() == pytest.approx(0.5, abs=0.05)
    for name in ("obs", "next_obs", "reward", "terminated", "action"):
        assert torch.equal(getattr(rows, name)[old], getattr(kept, name)[old]), name


def test_only_finished_episodes_are_drawn_and_all_their_rows_alike():
    buffer, collector, _ = played()
    rows = drawn(buffer, 20000)
    open_now = {env.unwrapped.episode for env in collector.envs.envs}
    assert not open_now & set(rows.obs[:, 0].int().tolist())
    shares = torch.bincount(rows.index, minlength=buffer.capacity).float()
    finished = int(np.maximum(buffer.start - buffer.oldest, 0).sum())
    assert int((shares > 0).sum()) == finished
    assert shares[shares > 0].std() < 3 * (20000 / finished) ** 0.5


def test_a_broken_off_episode_is_over():
    buffer, _, _ = played(steps=0)
    assert len(buffer) == 0
    buffer, collector, draw = played(steps=70, capacity=400)
    for env in range(2):
        buffer.end_episode(env)
    assert buffer.start.tolist() == [buffer.ring.written // 2] * 2
    before = buffer.start.copy()
    buffer.add(collector.collect(random_actor(collector.envs.env_spec), 1, draw))
    assert (buffer.start >= before).all()
    rows = drawn(buffer)
    new = (rows.obs[:, 2:4] >= 0).all(-1)
    assert torch.equal(rows.obs[new, 2], rows.next_obs[new, 0])


def test_a_resumed_buffer_draws_the_same(tmp_path):
    buffer, _, _ = played()
    store = SegmentStore(tmp_path)
    state = buffer.save(store)
    again = HER(buffer.ring.spec, 2, capacity=60)
    again.use_env(as_env_config(Diary))
    again.load(state, store)
    for mine, its in zip(drawn(buffer), drawn(again), strict=True):
        assert mine is None or torch.equal(mine, its)


def test_what_cannot_be_relabelled_is_refused():
    flat = describe(make_env(EnvConfig("CartPole-v1")))
    with pytest.raises(ConfigError, match="achieved_goal and desired_goal of one shape; CartPole-v1 shows"):
        HER(flat, 1)
    buffer, _, _ = played()
    with pytest.raises(ConfigError, match="n_step to 1"):
        buffer.sample(8, torch.Generator(), 3, 0.9)
    clipped = EnvConfig("rl/BitFlip-v0", {"num_bits": 3}, clip_rewards=False, transforms=[])
    spec = describe(make_env(clipped))
    with pytest.raises(ConfigError, match="it is future or final"):
        HER(spec, 1, goal_selection_strategy="past")


def test_a_wrapper_that_changes_rewards_is_noticed():
    class Doubled(Diary):
        def step(self, action):
            obs, _, terminated, truncated, info = super().step(action)
            return obs, 2.0, terminated, truncated, info

    config = as_env_config(Doubled)
    envs = make_envs(config, 1)
    buffer = HER(envs.env_spec, 1, capacity=50)
    buffer.use_env(config)
    rows = Collector(envs, 0).collect(random_actor(envs.env_spec), 3, torch.Generator().manual_seed(0))
    with pytest.raises(ConfigError, match="gives 0 where a step gave 2"):
        buffer.add(rows)


def solved(buffer, num_bits: int, steps: int) -> float:
    """Fraction of episodes in which DQN makes both rows of bits equal."""
    case = BY_NAME["dqn-her"].but(
        data={
            "env": EnvConfig("rl/BitFlip-v0", {"num_bits": num_bits}),
            "buffer": partial(buffer, capacity=50_000),
            "num_envs": 1,
            "batch_size": 128,
            "learning_starts": 500,
            "train_every": 4,
            "utd_ratio": 0.25,
        },
        model={
            "network": partial(MLP, hidden_dims=[256], activation="relu"),
            "lr": 1e-3,
            "gamma": 0.98,
            "tau": 0.05,
            "target_every": 1,
            "epsilon_schedule": Linear(0.1, 0.3),
        },
    )
    done = fit(case, RunConfig(env_steps=steps))
    episodes = done.model.run_episodes(done.data.eval_envs(10), 100, seed=7)
    done.data.teardown("fit")
    return sum(episode.extra["success"] for episode in episodes) / 100


@pytest.mark.slow
def test_bits_that_dqn_alone_never_makes_equal():
    """Ten bits: 1024 goals, one of which pays."""
    assert solved(HER, 10, 30_000) >= 0.95
    assert solved(Replay, 10, 30_000) <= 0.1
