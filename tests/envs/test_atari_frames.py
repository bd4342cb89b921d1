"""Atari as worlds of frames see it: lossless colours, the same by either vector env, ends and stacks that are true."""

import numpy as np
import pytest

from rl_lightning.envs.make import EnvConfig, make_env, make_envs
from rl_lightning.envs.palette import atari_palette
from rl_lightning.envs.wrappers.transforms import AtariFrames, FrameStack, GrayLevelIndex
from rl_lightning.errors import ConfigError, EnvError

pytest.importorskip("ale_py")


def config(game: str = "Freeway", **options) -> EnvConfig:
    return EnvConfig(f"ALE/{game}-v5", transforms=[AtariFrames(**options)])


@pytest.mark.parametrize("game", ["Freeway", "Pong", "MsPacman"])
def test_the_palette_loses_nothing(game):
    """Indices shown in their colours are the emulator's own RGB, every second pixel of it."""
    palette, rgb = (make_envs(config(game, obs_type=pixels), 1) for pixels in ("palette", "rgb"))
    assert palette.env_spec.obs_shape == (4, 105, 80) and rgb.env_spec.obs_shape == (12, 105, 80)
    assert palette.env_spec.action_repeat == 4 and palette.env_spec.num_stack == 4
    draw = np.random.default_rng(0)
    seen = [envs.reset(seed=1)[0].copy() for envs in (palette, rgb)]
    for _ in range(25):
        shown = atari_palette()[seen[0][0]].transpose(0, 3, 1, 2).reshape(12, 105, 80)
        assert (shown == seen[1][0]).all() and seen[0].max() < 128
        action = draw.integers(palette.env_spec.action_dim, size=1)
        seen = [envs.step(action)[0].copy() for envs in (palette, rgb)]


@pytest.mark.parametrize("pixels", ["palette", "rgb"])
def test_the_native_vector_shows_the_same(pixels):
    native, sync = (make_envs(config(obs_type=pixels, noop_max=0), 2, kind) for kind in ("native", "sync"))
    assert native.env_spec._replace(max_episode_steps=None) == sync.env_spec
    draw = np.random.default_rng(0)
    a, b = native.reset(seed=0)[0], sync.reset(seed=0)[0]
    for _ in range(20):
        assert (a == b).all()
        action = draw.integers(3, size=2)
        a, reward, *_ = native.step(action)
        b, other, *_ = sync.step(action)
        assert (reward == other).all()


def test_native_ends_hold_the_true_last_frames():
    envs = make_envs(config("Breakout", max_frames=60, noop_max=0), 2, "native")
    first = envs.reset(seed=0)[0].copy()
    assert (first[:, :1] == first).all(), "a stack begins with its first frame"
    infos, before = {}, first
    while "final_obs" not in infos:
        before = envs._stacks.copy()
        obs, _, terminated, truncated, infos = envs.step(np.array([1, 1]))
    ended = terminated | truncated
    assert (infos["final_obs"][ended, :3] == before[ended, 1:]).all()
    assert (obs[ended][:, :1] == obs[ended]).all() and (infos["episode"]["length"][ended] > 0).all()


def test_rows_and_strides():
    assert make_env(config("Pong", row_start=34, row_end=194)).observation_space.shape == (4, 80, 80)
    assert make_env(config(pixel_stride=4)).observation_space.shape == (4, 53, 40)
    for wrong in ({"obs_type": "grey"}, {"pixel_stride": 0}, {"row_start": 9, "row_end": 3}):
        with pytest.raises(ConfigError, match="AtariFrames"):
            AtariFrames(**wrong)
    with pytest.raises(ConfigError, match="needs an ALE"):
        make_env(EnvConfig("rl/Catch-v0", transforms=[AtariFrames(noop_max=0, frame_skip=1)]))


def test_levels_become_indices_and_strangers_are_named():
    envs = make_envs(EnvConfig("rl/Catch-v0", transforms=[GrayLevelIndex(), FrameStack(2)]), 1)
    assert set(np.unique(envs.reset(seed=0)[0])) == {0, 1, 2}
    with pytest.raises(EnvError, match="a pixel is 255"):
        make_envs(EnvConfig("rl/Catch-v0", transforms=[GrayLevelIndex([0, 128])]), 1).reset(seed=0)
    with pytest.raises(ConfigError, match="different numbers"):
        GrayLevelIndex([1, 1])
