"""Configs of every suite, and what the tests do with them."""

from importlib.util import find_spec

import numpy as np

from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.wrappers.transforms import (
    ActionRepeat,
    AtariPreprocessing,
    FrameStack,
    Grayscale,
    ImagePreprocessing,
    Pixels,
    Resize,
)

CASES = {
    "cartpole": EnvConfig("CartPole-v1"),
    "pendulum": EnvConfig("Pendulum-v1", max_episode_steps=20),
    "hopper": EnvConfig("Hopper-v5"),
    "hopper-v4": EnvConfig("Hopper-v4", action_repeat=2),
    "lander": EnvConfig("LunarLander-v3"),
    "car": EnvConfig("CarRacing-v3", {"screen_size": 16}, 24, action_repeat=4),
    "minigrid": EnvConfig("MiniGrid-Empty-5x5-v0", max_episode_steps=20),
    "minigrid-image": EnvConfig("MiniGrid-Empty-5x5-v0", {"obs_mode": "image"}, max_episode_steps=20),
    "minigrid-flat": EnvConfig("MiniGrid-Empty-5x5-v0", {"obs_mode": "flat"}, max_episode_steps=20),
    "crafter": EnvConfig("CrafterReward-v1", {"screen_size": 32}, 30),
    "pixels": EnvConfig("Pendulum-v1", max_episode_steps=8, transforms=[Pixels(16)]),
    "maze": EnvConfig("PointMaze_UMaze-v3", max_episode_steps=20),
    "dmc": EnvConfig("dmc/cartpole-swingup", max_episode_steps=20),
    "dmc-pixels": EnvConfig(
        "dmc/cartpole-swingup",
        {"pixels": True, "screen_size": 16},
        8,
        action_repeat=2,
        transforms=[FrameStack(3)],
    ),
    "atari": EnvConfig("ALE/Breakout-v5", max_episode_steps=60, transforms=[AtariPreprocessing(noop_max=5)]),
    "atari-v4": EnvConfig(
        "PongNoFrameskip-v4", max_episode_steps=80, transforms=[ActionRepeat(4), Grayscale(), Resize(32)]
    ),
    "catch": EnvConfig("rl/Catch-v0"),
    "catch-atari": EnvConfig(
        "rl/Catch-v0", {"screen_size": 84}, transforms=[AtariPreprocessing(frame_skip=1, noop_max=0)]
    ),
    "catch-image": EnvConfig(
        "rl/Catch-v0", transforms=[ImagePreprocessing(screen_size=20, grayscale=True, num_stack=2)]
    ),
    "recall": EnvConfig("rl/Recall-v0"),
    "masked": EnvConfig("rl/Masked-v0"),
    "constant": EnvConfig("rl/Constant-v0", {"continuous": True}),
    "counter": EnvConfig("rl/Counter-v0", {"episode_length": 7}),
    "lake": EnvConfig("rl/FrozenLake2x2-v0"),
    "dodge": EnvConfig("rl/Dodge-v0"),
}

if find_spec("minatar") is not None:  # no extra of ours brings it
    CASES["minatar"] = EnvConfig("MinAtar/Seaquest-v1", max_episode_steps=40)


def play(envs, steps, seed=3):
    """Everything that `steps` random steps return, copied."""
    obs, infos = envs.reset(seed=seed)
    rows = [(obs.copy(), infos)]
    for _ in range(steps):
        obs, *rest = envs.step(envs.action_space.sample())
        rows.append((obs.copy(), *rest))
    return rows


def assert_equal_runs(first, second):
    for one, two in zip(first, second, strict=True):
        for left, right in zip(one[:-1], two[:-1], strict=True):
            np.testing.assert_array_equal(left, right)
        assert one[-1].keys() == two[-1].keys()
        for key in one[-1].keys() - {"episode"}:
            np.testing.assert_array_equal(one[-1][key], two[-1][key])
        for key, column in one[-1].get("episode", {}).items():
            np.testing.assert_array_equal(column, two[-1]["episode"][key])
