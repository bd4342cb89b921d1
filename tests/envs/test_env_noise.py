import numpy as np
import pytest

from rl_lightning.envs.adapter import chain
from rl_lightning.envs.make import EnvConfig, make_env
from rl_lightning.envs.wrappers.env_noise import EnvNoise, NoisyEnv
from rl_lightning.errors import ConfigError


def differences(noise, steps=4000):
    """What noise adds to the constant observation (1), one row per step."""
    env = make_env(EnvConfig("rl/Counter-v0", {"continuous": True}, steps + 1, noise=noise))
    env.reset(seed=0)
    rows = [env.step(np.zeros(1, np.float32))[0] for _ in range(steps)]
    truth = np.stack([np.zeros(steps), np.arange(1, steps + 1)], axis=1)
    return np.stack(rows) - truth


def test_rate_and_scale_are_as_stated():
    added = differences(EnvNoise(noise_prob=0.25, noise_std=0.5))[:, 1]
    struck = added != 0
    assert struck.mean() == pytest.approx(0.25, abs=0.03)  # 4 standard errors
    assert added[struck].std() == pytest.approx(0.5, rel=0.1)
    assert abs(added[struck].mean()) < 0.07


def test_bounds_hold():
    assert (differences(EnvNoise(noise_prob=1.0, noise_std=5.0))[:, 0] >= 0).all()


def test_relative_noise_follows_the_declared_spread():
    added = differences(EnvNoise(noise_prob=1.0, noise_std=0.1, relative=True, obs_std=[1.0, 20.0]))[100:, 1]
    assert added.std() == pytest.approx(2.0, rel=0.1)


def test_relative_noise_follows_the_running_spread():
    added = differences(EnvNoise(noise_prob=1.0, noise_std=0.1, relative=True))[2000:, 1]
    spread = 0.1 * np.arange(2000, 4000) / np.sqrt(12)  # of 1..t
    assert (added / spread).std() == pytest.approx(1.0, rel=0.1)


def test_actions_are_disturbed_in_units_of_half_their_range():
    env = make_env(EnvConfig("Pendulum-v1", max_episode_steps=10**6, noise=EnvNoise(True, False, 1.0, 0.1)))
    env.reset(seed=0)
    torques = []
    for _ in range(800):
        env.step(np.zeros(1, np.float32))
        torques.append(env.unwrapped.last_u)
    assert np.std(torques) == pytest.approx(0.2, rel=0.12)  # 0.1 of the range [-2, 2]


def test_the_seed_decides_the_noise_and_the_env_is_untouched():
    noise = EnvNoise(noise_prob=0.5, noise_std=0.1)
    assert (differences(noise, 50) == differences(noise, 50)).all()
    assert (differences(EnvNoise(noise_prob=0.0), 50) == 0).all()


def test_wrong_settings_are_refused():
    with pytest.raises(ConfigError, match="noise_prob"):
        EnvNoise(noise_prob=1.5)
    with pytest.raises(ConfigError, match="Box of floats"):
        make_env(EnvConfig("FrozenLake-v1", noise=EnvNoise(observations=True)))
    with pytest.raises(ConfigError, match="3 entries"):
        make_env(EnvConfig("CartPole-v1", noise=EnvNoise(relative=True, obs_std=[1, 2, 3])))


def test_a_discrete_action_is_replaced_by_any():
    env = make_env(EnvConfig("rl/Masked-v0", {"num_actions": 4}, noise=EnvNoise(True, False, noise_prob=1.0)))
    noisy = next(layer for layer in chain(env) if isinstance(layer, NoisyEnv))
    env.reset(seed=3)
    drawn = [noisy._noisy_action(0) for _ in range(400)]
    counts = np.bincount(drawn, minlength=4)
    assert counts.sum() == 400 and counts.min() > 60  # 100 expected of each, 8.7 standard deviation
