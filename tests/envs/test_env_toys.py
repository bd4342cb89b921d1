"""The toys are what the learning tests take them for."""

import numpy as np
import pytest

from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
from rl_lightning.errors import ConfigError


def test_catch_is_won_by_following_the_ball():
    env = make_env(EnvConfig("rl/Catch-v0"))
    total = 0.0
    for episode in range(20):
        obs, _ = env.reset(seed=episode)
        ended = False
        while not ended:
            ball = int(np.argwhere(obs[0] == 255)[0, 1])
            found = np.argwhere(obs[0] == 128)
            paddle = int(found[0, 1]) if len(found) else ball
            obs, reward, ended, *_ = env.step(0 if ball == paddle else 1 if ball < paddle else 2)
        total += reward
    assert total >= 18  # one that starts nine columns away is just reachable


def test_catch_scales_up_to_the_atari_size():
    spec = probe_spec(EnvConfig("rl/Catch-v0", {"screen_size": 84}))
    assert spec.obs_shape == (1, 84, 84) and spec.is_pixels


def test_go_pays_by_what_was_seen_first_and_nothing_without_memory():
    env = make_env(EnvConfig("rl/Recall-v0", {"delay": 2, "go_nogo": True}))
    paid = {}
    for episode in range(200):
        obs, _ = env.reset(seed=episode)
        cue, ended, action = int(obs[:2].argmax()), False, episode % 2
        while not ended:
            obs, reward, ended, *_ = env.step(action)
        paid.setdefault((cue, action), set()).add(float(reward))
    assert paid == {(0, 0): {0.0}, (1, 0): {0.0}, (0, 1): {-1.0}, (1, 1): {1.0}}
    with pytest.raises(ConfigError, match="two cues"):
        make_env(EnvConfig("rl/Recall-v0", {"num_cues": 3, "go_nogo": True}))


@pytest.mark.parametrize("cues", [2, 3])
def test_recall_needs_memory(cues):
    env = make_env(EnvConfig("rl/Recall-v0", {"num_cues": cues}))
    generator = np.random.default_rng(0)
    remembered, guessed = [], []
    for episode in range(400):
        obs, _ = env.reset(seed=episode)
        cue, ended = int(obs[:cues].argmax()), False
        guess = int(generator.integers(cues))
        while not ended:
            obs, reward, ended, *_ = env.step(cue if episode % 2 else guess)
            assert obs[:cues].sum() == 0, "the cue is seen once"
        (remembered if episode % 2 else guessed).append(reward)
    assert np.mean(remembered) == 1.0
    assert abs(np.mean(guessed)) < 0.3


def test_masked_ends_badly_without_the_mask():
    envs = make_envs(EnvConfig("rl/Masked-v0"), 4)
    obs, infos = envs.reset(seed=0)
    for _ in range(30):
        mask = infos["action_mask"]
        assert mask.shape == (4, 6) and mask.any(axis=1).all()
        obs, reward, terminated, _, infos = envs.step(np.where(mask, obs, -1).argmax(axis=1))
        assert (reward >= 0).all()
    illegal = (~infos["action_mask"]).argmax(axis=1)
    bad = ~infos["action_mask"].all(axis=1)
    _, reward, terminated, _, _ = envs.step(illegal)
    assert (reward[bad] == -5).all() and terminated[bad].all()


@pytest.mark.parametrize("continuous", [False, True])
def test_constant_is_cut_after_ten(continuous):
    config = EnvConfig("rl/Constant-v0", {"continuous": continuous})
    assert probe_spec(config).action_kind == ("continuous" if continuous else "discrete")
    envs = make_envs(config, 1)
    envs.reset(seed=0)
    for t in range(10):
        _, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert reward[0] == 1 and not terminated[0] and truncated[0] == (t == 9)
    assert infos["episode"]["return"][0] == 10


def test_small_lake_is_crossed_in_two_steps():
    env = make_env(EnvConfig("rl/FrozenLake2x2-v0"))
    obs, _ = env.reset(seed=0)
    assert obs.tolist() == [1, 0, 0, 0]
    env.step(2)
    obs, reward, terminated, *_ = env.step(1)
    assert obs.tolist() == [0, 0, 0, 1] and reward == 1 and terminated
    env.reset()
    _, reward, terminated, *_ = env.step(1)
    assert reward == 0 and terminated


def test_bits_are_flipped_one_at_a_time_until_they_are_the_goal():
    env = make_env(EnvConfig("rl/BitFlip-v0", {"num_bits": 5}))
    obs, _ = env.reset(seed=1)
    achieved, desired, bits = (part.copy() for part in np.split(obs, 3))  # sorted names
    wrong = np.flatnonzero(achieved != desired)
    assert np.array_equal(bits, achieved) and len(wrong) > 0
    for left, bit in zip(range(len(wrong) - 1, -1, -1), wrong, strict=True):
        obs, reward, terminated, truncated, info = env.step(int(bit))
        assert (reward, terminated, truncated) == (0.0 if left == 0 else -1.0, left == 0, False)
    assert np.array_equal(obs[:5], desired) and info["episode"]["success"] == 1.0
    env = make_env(EnvConfig("rl/BitFlip-v0", {"num_bits": 12}))
    env.reset(seed=2)
    ends = [env.step(0)[2:4] for _ in range(12)]
    assert ends == [(False, False)] * 11 + [(False, True)]  # never solved by one bit: cut
