"""What is particular to one suite."""

import gymnasium
import numpy as np
import pytest

from rl_lightning.envs import registry
from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing, FrameStack, Resize
from rl_lightning.errors import ConfigError, EnvError


def test_dm_control_observations_are_in_sorted_key_order():  # T15
    env = make_env(EnvConfig("dmc/reacher-easy"))
    obs, _ = env.reset(seed=4)
    inner = env.unwrapped
    assert inner.keys == ["position", "to_target", "velocity"]
    state = inner.control.task.get_observation(inner.control.physics)
    flat = np.concatenate([np.ravel(state[key]) for key in ("position", "to_target", "velocity")])
    np.testing.assert_array_equal(obs, flat.astype(np.float32))


def test_dm_control_time_limit_truncates():
    config = EnvConfig("dmc/cartpole-balance", action_repeat=8)
    assert probe_spec(config).max_episode_steps == 1000
    env = make_env(config)
    env.reset(seed=0)
    for _ in range(125):
        *_, terminated, truncated, info = env.step(np.zeros(1, np.float32))
    assert truncated and not terminated and info["episode"]["length"] == 1000


def test_robotics_mazes_flatten_goal_then_state():
    env = make_env(EnvConfig("PointMaze_UMaze-v3"))
    obs, _ = env.reset(seed=0)
    goal = env.unwrapped.goal
    np.testing.assert_allclose(obs[2:4], goal, rtol=1e-5)  # achieved_goal, desired_goal, observation
    np.testing.assert_allclose(obs[:2], obs[4:6])


def test_car_racing_draws_only_the_last_repeated_frame():
    drawn = []
    rows = []
    for repeat in (1, 3):
        env = make_env(EnvConfig("CarRacing-v3", max_episode_steps=50, action_repeat=repeat))
        inner = env.unwrapped
        env.reset(seed=1)
        count = [0]
        original = inner.fresh_obs

        def counted(count=count, original=original):
            count[0] += 1
            return original()

        inner.fresh_obs = counted
        for _ in range(6 // repeat):
            obs, *_ = env.step(np.array([0.2, 1.0, -1.0], np.float32))
        rows.append(obs.copy())
        drawn.append(count[0])
        env.close()
    assert drawn == [6, 2]
    np.testing.assert_array_equal(rows[0], rows[1])


def breakout(vectorization, training=True, preset=None):
    config = EnvConfig(
        "ALE/Breakout-v5",
        transforms=[preset or AtariPreprocessing(noop_max=5, repeat_action_probability=0.0)],
    )
    return make_envs(config, 2 if vectorization == "native" else 1, vectorization, training=training)


@pytest.mark.parametrize("vectorization", ["sync", "native"])
def test_a_lost_life_ends_an_episode_in_training_but_not_the_record(vectorization):
    envs = breakout(vectorization)
    assert envs.env_spec.obs_shape == (4, 84, 84) and envs.env_spec.num_stack == 4
    before = envs.reset(seed=0)[0].copy()
    ends = games = 0
    score = 0.0
    for _ in range(400):
        obs, reward, terminated, truncated, infos = envs.step(envs.action_space.sample())
        assert set(np.unique(reward)) <= {-1.0, 0.0, 1.0} and obs.dtype == np.uint8
        assert set(infos) <= {"final_obs", "episode"}
        ended = terminated | truncated
        assert ("final_obs" in infos) == bool(ended.any())
        for i in np.flatnonzero(ended):  # the true last frames continue those before
            np.testing.assert_array_equal(infos["final_obs"][i][:3], before[i][1:])
        before = obs.copy()
        score += reward[0]
        ends += ended[0]
        if "episode" in infos and infos["episode"]["length"][0] > 0:
            games += 1
            if games == 1:
                assert ends >= 4  # the last life may end with the game
                assert infos["episode"]["return"][0] >= score
                assert infos["episode"]["length"][0] > 100
    assert games >= 1 and ends > games
    envs.close()


@pytest.mark.parametrize("vectorization", ["sync", "native"])
def test_scored_games_are_whole(vectorization):
    envs = breakout(vectorization, training=False)
    envs.reset(seed=0)
    ends = 0
    for _ in range(300):
        _, _, terminated, truncated, infos = envs.step(envs.action_space.sample())
        for i in np.flatnonzero(terminated | truncated):
            assert infos["episode"]["length"][i] > 0
            ends += 1
    assert ends >= 1
    envs.close()


def test_native_atari_is_seeded_and_refuses_what_it_cannot_do():
    frames = []
    for _ in range(2):
        envs = breakout("native")
        envs.reset(seed=5)
        frames.append(np.stack([envs.step(np.array([k % 4, 2]))[0].copy() for k in range(10)]))
        envs.close()
    np.testing.assert_array_equal(*frames)
    assert (frames[0][:, 0] != frames[0][:, 1]).any()
    with pytest.raises(ConfigError, match="AtariPreprocessing"):
        make_envs(EnvConfig("ALE/Pong-v5", transforms=[FrameStack(4)]), 1, "native")
    with pytest.raises(ConfigError, match="grey"):
        breakout("native", preset=AtariPreprocessing(grayscale=False))


def test_stack_pads_with_the_first_frame_newest_last():
    env = make_env(EnvConfig("rl/Counter-v0", transforms=[FrameStack(3)]))
    obs, _ = env.reset(seed=1)
    assert obs.tolist() == [1000, 0] * 3
    obs, *_ = env.step(0)
    assert obs.tolist() == [1000, 0, 1000, 0, 1000, 1]
    assert probe_spec(EnvConfig("rl/Counter-v0", transforms=[FrameStack(3)])).num_stack == 3


def test_pixel_transforms_refuse_states():
    with pytest.raises(ConfigError, match="pixels"):
        make_env(EnvConfig("CartPole-v1", transforms=[Resize(8)]))


@pytest.mark.parametrize("env_id", ["FetchReach-v4", "HandReach-v3", "FrankaKitchen-v1"])
def test_robotics_with_joints_of_other_kinds(env_id):
    """Their models are set by joint, and MuJoCo's kinds of joints equal no number of numpy's any more."""
    pytest.importorskip("gymnasium_robotics")
    env = make_env(EnvConfig(env_id))
    obs, _ = env.reset(seed=0)
    after, *_ = env.step(env.action_space.sample())
    assert np.isfinite(obs).all() and not np.array_equal(obs, after)
    env.close()


@pytest.mark.parametrize(("old", "new"), [("FetchReach-v1", "FetchReach-v4"), ("Hopper-v2", "Hopper-v5")])
def test_what_needs_mujoco_py_names_its_successor(old, new):
    with pytest.raises(ConfigError, match=f"no longer made; use {new}"):
        make_env(EnvConfig(old))


def test_envs_that_cannot_be_made_are_not_listed():
    from rl_lightning.analysis.env_index import environments
    from rl_lightning.envs.suites.robotics import known_ids

    listed = [name for name, *_ in environments()]
    robotics = {name for name, suite, _ in environments() if suite == "robotics"}
    assert "FetchReach-v4" in robotics and robotics <= set(known_ids())
    assert not {"FetchReach-v1", "Hopper-v2", "rl/AntMaze-"} & {*listed, *known_ids()}


def test_an_env_whose_package_finds_another_version_says_so(monkeypatch):
    def broken(**kwargs):
        raise ValueError("could not broadcast input array from shape (11,) into shape (12,)")

    pinned = "metaworld 3.1.1 needs mujoco==3.3.0, and 3.17.0 is installed"
    gymnasium.register("Pinned-v0", broken)
    monkeypatch.setattr(registry, "misfit", lambda package: pinned)
    try:
        with pytest.raises(EnvError, match=r"Pinned-v0 cannot be made: metaworld .* needs mujoco"):
            registry.gym_make("Pinned-v0", {})
    finally:
        gymnasium.registry.pop("Pinned-v0")
