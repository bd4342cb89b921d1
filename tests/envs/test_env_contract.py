"""One contract, every suite."""

import gymnasium
import numpy as np
import pytest
from env_cases import CASES, assert_equal_runs, play
from gymnasium.vector import AutoresetMode

from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec

SHORT = {"car": 7, "dmc-pixels": 5, "atari": 20, "atari-v4": 22}  # agent steps of the slow ones


@pytest.mark.parametrize("name", CASES)
def test_contract(name):
    config = CASES[name]
    envs = make_envs(config, 2)
    spec = envs.env_spec
    assert envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    assert envs.single_observation_space.shape == spec.obs_shape
    assert probe_spec(config) == spec
    repeats = {"car": 4, "hopper-v4": 2, "dmc-pixels": 2, "atari": 4, "atari-v4": 4}
    assert spec.action_repeat == repeats.get(name, 1)
    returns, lengths, ended_any = np.zeros(2), np.zeros(2), False
    for row in play(envs, SHORT.get(name, 45))[1:]:
        obs, reward, terminated, truncated, infos = row
        assert obs.shape == (2, *spec.obs_shape) and obs.dtype == spec.obs_dtype
        assert reward.dtype == np.float32 and terminated.dtype == truncated.dtype == np.bool_
        assert set(infos) <= {"final_obs", "episode", "action_mask"}
        assert ("action_mask" in infos) == spec.action_mask
        ended = terminated | truncated
        assert ("final_obs" in infos) == bool(ended.any())
        returns += reward
        lengths += spec.action_repeat
        if "episode" in infos:
            done = infos["episode"]["length"] > 0
            assert not (done & ~ended).any()
            if not name.startswith("atari"):  # there rewards are clipped and a life is not a game
                np.testing.assert_allclose(infos["episode"]["return"][done], returns[done], rtol=1e-4)
                missing = (
                    lengths[done] - infos["episode"]["length"][done]
                )  # of a last action that was cut short
                assert (missing >= 0).all() and (missing < spec.action_repeat).all()
            returns[ended], lengths[ended] = 0, 0
            ended_any = True
    assert ended_any or spec.max_episode_steps is None or spec.max_episode_steps >= 45
    envs.close()


@pytest.mark.parametrize(
    "name", ["cartpole", "hopper", "minigrid", "maze", "dmc", "atari", "masked", "catch"]
)
def test_seeds_repeat_a_run_and_differ_between_envs(name):  # T14
    runs = []
    for _ in range(2):
        envs = make_envs(CASES[name], 2)
        runs.append(play(envs, 12))
        envs.close()
    assert_equal_runs(*runs)
    if name not in ("minigrid", "atari"):  # whose first view is the same in every episode
        assert (runs[0][0][0][0] != runs[0][0][0][1]).any()
    other = make_envs(CASES[name], 2)
    assert any((a[0] != b[0]).any() for a, b in zip(play(other, 12, seed=77), runs[0], strict=True))
    other.close()


def test_pendulum_actions_are_rescaled_and_clipped():  # T13
    env = make_env(EnvConfig("Pendulum-v1"))
    spec = probe_spec(EnvConfig("Pendulum-v1"))
    assert spec.action_low == (-2.0,) and spec.action_high == (2.0,)
    for given, torque in ((0.0, 0.0), (0.5, 1.0), (1.0, 2.0), (-7.0, -2.0)):
        env.reset(seed=0)
        env.step(np.array([given], np.float32))
        assert env.unwrapped.last_u == pytest.approx(torque)
    raw = make_env(EnvConfig("Pendulum-v1", rescale_actions=False))
    raw.reset(seed=0)
    raw.step(np.array([1.5], np.float32))
    assert raw.unwrapped.last_u == pytest.approx(1.5)


def test_tracked_info_is_averaged_and_success_is_ever():
    envs = make_envs(EnvConfig("Hopper-v5"), 1)
    for *_, infos in play(envs, 60)[1:]:
        if "episode" in infos:
            assert abs(infos["episode"]["x_velocity"][0]) < 10
            break
    else:
        raise AssertionError("no episode ended")
    grid = make_env(EnvConfig("MiniGrid-Empty-5x5-v0"))
    grid.reset(seed=0)
    for action in (2, 2, 1, 2, 2):  # forward twice, turn right, forward twice: the goal
        *_, terminated, _, info = grid.step(action)
    assert terminated and info["episode"]["success"] == 1.0


def test_clipped_rewards_keep_the_raw_record():
    envs = make_envs(EnvConfig("rl/Counter-v0", {"episode_length": 4}, clip_rewards=True), 1)
    envs.reset(seed=0)
    for _ in range(4):
        _, reward, _, _, infos = envs.step(np.array([0]))
        assert reward[0] == 1.0
    assert infos["episode"]["return"][0] == 1 + 2 + 3 + 4


def test_rendering_uses_the_wrapped_env():
    envs = make_envs(EnvConfig("CartPole-v1"), 2, render_mode="rgb_array")
    envs.reset(seed=0)
    frames = envs.render()
    assert len(frames) == 2 and frames[0].ndim == 3
    assert envs.call("index") == (0, 1)
    envs.close()


def test_one_env_passes_gymnasiums_view_of_spaces():
    for name in ("cartpole", "hopper", "catch", "minigrid", "masked"):
        env = make_env(CASES[name])
        obs, _ = env.reset(seed=0)
        assert isinstance(env, gymnasium.Env) and env.observation_space.contains(obs), name
        env.close()
