"""A restored env goes on as the saved one would have, bit for bit, in every suite."""

import gymnasium
import numpy as np
import pytest
import torch
from env_cases import CASES, assert_equal_runs
from snapshot_cases import check_exact, played, random_actions, through_a_file

from rl_lightning.envs.make import EnvConfig, make_envs
from rl_lightning.envs.wrappers.env_noise import EnvNoise
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack, TimeAware, Transform
from rl_lightning.rollout.collect import Collector


class GymWrappers(Transform):
    """Gymnasium's own wrappers with state."""

    def apply(self, env, training=True):
        env = gymnasium.wrappers.NormalizeObservation(env)
        env = gymnasium.wrappers.FrameStackObservation(env, 2)
        return gymnasium.wrappers.RecordEpisodeStatistics(env)


def noisy(relative):
    return EnvNoise(actions=True, observations=True, noise_prob=0.5, noise_std=0.1, relative=relative)


CLASSIC = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
TOY_TEXT = ["Taxi-v4", "Blackjack-v1", "CliffWalking-v1", "FrozenLake-v1"]
TOYS = ["Catch", "Recall", "Masked", "Constant", "Counter", "FrozenLake2x2"]
EXACT = {
    **{name: EnvConfig(name, max_episode_steps=70) for name in CLASSIC + TOY_TEXT},
    **{name: EnvConfig(f"rl/{name}-v0", max_episode_steps=30) for name in TOYS},
    "jitter": EnvConfig("rl/Counter-v0", {"episode_length": 30, "jitter": 20}),
    "ant": EnvConfig("Ant-v5", max_episode_steps=60),
    "hopper-repeat": EnvConfig("Hopper-v5", action_repeat=2),
    "maze": EnvConfig("PointMaze_UMaze-v3", max_episode_steps=60),
    "reacher": EnvConfig("dmc/reacher-easy", max_episode_steps=60),
    "cheetah": EnvConfig("dmc/cheetah-run", max_episode_steps=60),
    "doorkey": EnvConfig("MiniGrid-DoorKey-5x5-v0", max_episode_steps=60),
    "babyai": EnvConfig("BabyAI-GoToObj-v0", max_episode_steps=60),
    "noise": EnvConfig("Pendulum-v1", max_episode_steps=50, noise=noisy(False)),
    "relative-noise": EnvConfig("Pendulum-v1", max_episode_steps=50, noise=noisy(True)),
    "stack": EnvConfig("CartPole-v1", transforms=[TimeAware(), FrameStack(3)], clip_rewards=True),
    "gym-wrappers": EnvConfig("CartPole-v1", transforms=[GymWrappers()]),
    "catch-atari": CASES["catch-atari"],
    **{name: CASES[name] for name in ("crafter", "minatar") if name in CASES},
}


@pytest.mark.parametrize(  # Crafter takes seconds to make a world
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "crafter")) for name in EXACT]
)
def test_a_restored_env_goes_on_bit_for_bit(name):
    timed = name == "gym-wrappers"  # which look at the clock
    check_exact(EXACT[name], num_envs=1, after=310, ends=3, inner=not timed)


@pytest.mark.parametrize("name", ["CartPole-v1", "cheetah", "hopper-repeat"])
def test_also_from_the_first_step(name):
    check_exact(EXACT[name], before=0, after=100, num_envs=2)


def test_atari_with_sticky_actions_lives_and_noops():
    preset = AtariPreprocessing(repeat_action_probability=0.25, noop_max=8)
    check_exact(EnvConfig("ALE/Breakout-v5", transforms=[preset]), before=30, after=150, num_envs=1, ends=3)


def test_pixels_of_dm_control():
    check_exact(CASES["dmc-pixels"], before=3, after=9, num_envs=1, ends=2)


@pytest.mark.parametrize(("saver", "loader"), [("async", "async"), ("async", "sync")])
def test_workers(saver, loader):
    config = EnvConfig("Hopper-v5", transforms=[FrameStack(2)], noise=None)
    check_exact(config, vectorization=saver, again=loader, after=60)


def test_saving_disturbs_nothing():
    for name in ("cheetah", "ant", "doorkey", "noise"):
        runs = []
        for saves in (False, True):
            envs = make_envs(EXACT[name], 1)
            envs.reset(seed=4)
            rows = []
            for action in random_actions(envs, 30, 5):
                rows += played(envs, [action])
                if saves:
                    envs.snapshot()
            runs.append(rows)
            envs.close()
        assert_equal_runs(*runs)


@pytest.mark.parametrize("name", ["lander", "car"])
def test_box2d_starts_a_new_episode(name):
    envs = make_envs(CASES[name], 2)
    envs.reset(seed=1)
    played(envs, random_actions(envs, 5, 1))
    states, _ = through_a_file(envs.snapshot())
    assert states == [None, None] and CASES[name].id in envs.call("unsaved")[0]
    runs = []
    for seed in (7, 7, 8):
        first = envs.restore(states, seed=seed)
        assert sorted(first) == [0, 1]
        runs.append(np.stack([obs for obs, _ in first.values()]))
        assert runs[-1].shape == (2, *envs.env_spec.obs_shape)
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
    envs.close()


def test_native_atari_starts_new_games():
    config = EnvConfig("ALE/Breakout-v5", transforms=[AtariPreprocessing(noop_max=5)])
    envs = make_envs(config, 2, "native")
    envs.reset(seed=1)
    envs.step(np.array([1, 2]))
    states = envs.snapshot()
    assert states == [None, None]
    again = [envs.restore(states, seed=3) for _ in range(2)]
    assert sorted(again[0]) == [0, 1] and again[0][0][1] == {}
    np.testing.assert_array_equal(again[0][1][0], again[1][1][0])
    envs.close()


class First:
    """An actor without randomness: always the first legal action."""

    def __call__(self, obs, carry, generator, mask=None):
        return (torch.zeros(len(obs), dtype=torch.int64) if mask is None else mask.int().argmax(-1)), carry


@pytest.mark.parametrize("name", ["masked", "lander"])
def test_a_collector_goes_on(name):
    collector = Collector(make_envs(CASES[name], 2), seed=3)
    collector.collect(First(), 13, None)
    state, _ = through_a_file(collector.state_dict())
    straight = collector.collect(First(), 40, None)
    fresh = Collector(make_envs(CASES[name], 2), seed=99)
    restarted = fresh.load_state_dict(state)
    steps = fresh.collect(First(), 40, None)
    if name == "masked":
        assert restarted == []
        for field in ("obs", "action", "reward", "terminated", "mask", "last_mask"):
            np.testing.assert_array_equal(getattr(straight, field), getattr(steps, field))
        assert collector.episodes == fresh.episodes
    else:
        assert restarted == [0, 1] and steps.is_first[0].all()
