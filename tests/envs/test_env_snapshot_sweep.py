"""Every task of every suite that can be saved, one by one."""

import contextlib
import io

import gymnasium
import pytest
from snapshot_cases import check_exact

from rl_lightning.envs.make import EnvConfig
from rl_lightning.envs.wrappers.transforms import AtariPreprocessing

pytestmark = pytest.mark.slow
MUJOCO = [
    name
    for name, spec in gymnasium.registry.items()
    if "gymnasium.envs.mujoco" in str(spec.entry_point) and name.endswith("-v5")
]
MAZES = ["PointMaze_UMaze-v3", "PointMaze_Large_Diverse_GR-v3", "AntMaze_UMaze-v5", "AdroitHandDoor-v1"]


@pytest.mark.parametrize("name", MUJOCO + MAZES)
@pytest.mark.parametrize("before", [0, 37])
def test_mujoco(name, before):
    check_exact(EnvConfig(name, max_episode_steps=80), before=before, num_envs=1, ends=3)


def dm_control():
    suite = pytest.importorskip("rl_lightning.envs.suites.dmc")
    return suite.known_ids()


def minigrid():
    suite = pytest.importorskip("rl_lightning.envs.suites.minigrid")
    return [name for name in suite.known_ids() if "WFC" not in name]  # whose patterns are not installed


@pytest.mark.parametrize("name", dm_control())
def test_dm_control(name):
    check_exact(EnvConfig(name, max_episode_steps=50), before=37, after=120, num_envs=1, ends=2)


@pytest.mark.parametrize("name", minigrid())
def test_minigrid(name):
    with contextlib.redirect_stdout(io.StringIO()):
        check_exact(EnvConfig(name, max_episode_steps=50), before=37, after=120, num_envs=1, ends=2)


@pytest.mark.parametrize("name", ["Pong", "Breakout"])
@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_atari(name, sticky):
    config = EnvConfig(
        f"ALE/{name}-v5",
        max_episode_steps=400,
        transforms=[AtariPreprocessing(repeat_action_probability=sticky)],
    )
    check_exact(config, before=40, num_envs=1, ends=2)
