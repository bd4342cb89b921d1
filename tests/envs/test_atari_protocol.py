"""Every Atari config says in its header which protocol it plays, and the emulator agrees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rl_lightning.envs.adapter import EnvAdapter, chain
from rl_lightning.envs.make import EnvConfig, describe, make_env, make_envs
from rl_lightning.envs.wrappers.env_wrappers import FireReset, LifeLoss, SignReward
from rl_lightning.envs.wrappers.transforms import AtariFrames, AtariPreprocessing
from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.request import Request

pytest.importorskip("ale_py")

FOLDER = Path(__file__).parents[2] / "configs"
STICKY = {"dreamer_v2/pong": 0.25}
WHOLE = [
    "dqn/pong",
    "dqn/breakout",
    "ppo/pong",
    "ppo/breakout",
    "dreamer_v3/pong",
    "dreamer_v3/atari100k",
    *STICKY,
]


def env_of(*names: str) -> EnvAdapter:
    cli = parse_config(compose(names), Request())
    cli.build(meta=True)
    return make_env(cli.datamodule.env)


def stickiness(env: EnvAdapter) -> float:
    return float(env.unwrapped.ale.getFloat("repeat_action_probability"))


@pytest.mark.parametrize("name", WHOLE)
def test_the_emulator_is_as_sticky_as_the_header_says(name):
    header = (FOLDER / f"{name}.yaml").read_text().splitlines()[0]
    assert "sticky actions" in header and ("no sticky actions" in header) == (name not in STICKY)
    assert stickiness(env_of(name)) == STICKY.get(name, 0.0)


def test_every_config_of_a_game_states_its_protocol():
    files = [path for path in FOLDER.rglob("*.yaml") if not {"stages", "sweep"} & set(path.parts)]
    games = [path for path in files if "ALE/" in path.read_text() or "AtariPreprocessing" in path.read_text()]
    assert len(games) > 10
    for path in games:
        assert "sticky actions" in path.read_text().splitlines()[0], path


def test_atari100k_is_the_authors_block_of_dreamer_v3():
    """size 64, repeat 4, sticky false, gray false, actions needed, lives unused, autostart false, raw rewards"""
    env = env_of("dreamer_v3/atari100k")
    layers = [type(layer) for layer in chain(env)]
    assert not {FireReset, LifeLoss, SignReward} & set(layers)
    assert env.observation_space.shape == (3, 64, 64) and env.action_space.n == 6
    assert env.unwrapped.ale.getInt("max_num_frames_per_episode") == 108_000
    assert describe(env).action_repeat == 4


@pytest.mark.parametrize("name", ["dqn/pong", "dreamer_v3/atari100k"])
def test_the_sticky_protocol_is_an_overlay(name):
    env = env_of(name, "env/atari-sticky")
    assert stickiness(env) == 0.25 and env.action_space.n == 18


@pytest.mark.parametrize("preset", [AtariPreprocessing, AtariFrames])
@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_the_native_vector_obeys_as_well(preset, sticky):
    """Without no-ops and stickiness nothing is left to chance: two seeds see the same game."""
    transform = preset(repeat_action_probability=sticky, noop_max=0, fire_reset=False)
    envs = make_envs(EnvConfig("ALE/Pong-v5", transforms=[transform]), 2, "native")
    envs.reset(seed=3)
    actions = np.random.default_rng(0).integers(6, size=40)
    same = all((obs[0] == obs[1]).all() for obs in (envs.step(np.full(2, action))[0] for action in actions))
    assert same == (sticky == 0.0)
    envs.close()
