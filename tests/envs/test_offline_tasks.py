"""The tasks that diffusion learns from recordings of: mazes as D4RL has them, a detour, heaps of good actions."""

import numpy as np
import pytest
import torch

from rl_lightning.behaviors.detour_walker import detour_walker
from rl_lightning.behaviors.maze_walker import one_number, u_maze_walker
from rl_lightning.datasets.references import d4rl_env
from rl_lightning.envs.make import EnvConfig, make_env, make_envs, probe_spec
from rl_lightning.envs.toys.detour import Detour, middle_of
from rl_lightning.envs.toys.modes import CENTRES, EightModes
from rl_lightning.rollout.evaluate import evaluate

MAZES = {"umaze": ((0, 8), 700), "medium": ((20, 20), 1000), "large": ((32, 24), 1000)}


@pytest.mark.parametrize("maze", MAZES)
def test_ant_mazes_are_those_of_the_files(maze):
    """Shape, time limit, start at the origin, and the goal where D4RL's layouts put it, at most 1.5 beyond its cell."""
    pytest.importorskip("gymnasium_robotics")
    (x, y), steps = MAZES[maze]
    about = d4rl_env(f"d4rl/antmaze-{maze}-diverse-v2")
    assert about["env_id"] == f"rl/AntMaze-{maze}-v0" and about["max_episode_steps"] == steps
    spec = probe_spec(EnvConfig(id=about["env_id"]))
    assert (spec.obs_shape, spec.action_shape, spec.max_episode_steps) == ((29,), (8,), steps)
    env = make_env(EnvConfig(id=about["env_id"]))
    obs, _ = env.reset(seed=0)
    layer = env
    while not hasattr(layer, "origin"):
        layer = layer.env
    goal = env.unwrapped.goal - layer.origin
    assert np.abs(obs[:2]).max() <= 0.1 and 0.4 < obs[2] < 0.9
    assert (goal >= np.array([x, y])).all() and (goal <= np.array([x, y]) + 1.5).all()
    model = env.unwrapped.ant_env.model
    assert model.opt.timestep * env.unwrapped.ant_env.frame_skip == pytest.approx(0.1)
    assert model.actuator_gear[:, 0].tolist() == [30.0] * 8
    # a free cell lies right of the start, a wall above it: y grows downwards, as in the files
    free = np.array([[0.0, 0.0], [4.0, 0.0]]) + layer.origin
    walls = env.unwrapped.maze
    cells = [walls.cell_xy_to_rowcol(place) for place in free]
    assert all(walls.maze_map[row][column] != 1 for row, column in cells)
    env.close()


def test_reaching_the_goal_pays_one_and_ends_the_episode():
    pytest.importorskip("gymnasium_robotics")
    env = make_env(EnvConfig(id="rl/AntMaze-umaze-v0"))
    env.reset(seed=0)
    base = env.unwrapped
    base.goal = base.ant_env.data.qpos[:2].copy()
    _, reward, terminated, truncated, info = env.step(np.zeros(8, np.float32))
    assert (reward, terminated, truncated) == (1.0, True, False) and info["episode"]["success"] == 1.0
    env.close()


def test_the_wanderer_reaches_the_goal_now_and_then():
    """What the data are made of; that a memoryless copy of it arrives in 30 to 70 % is measured in the docs."""
    pytest.importorskip("gymnasium_robotics")
    envs = make_envs(EnvConfig(id="rl/PointUMaze-v0"), 10)
    found = evaluate(u_maze_walker, one_number, envs, 20, 0, torch.Generator().manual_seed(0))
    success = np.mean([episode.extra["success"] for episode in found])
    assert 0.3 <= success < 1.0
    assert all(episode.length % 5 == 0 or episode.extra["success"] for episode in found)
    envs.close()


@pytest.mark.parametrize("env_id", ["rl/Detour-v0", "rl/DetourPixels-v0"])
def test_the_demonstrator_goes_around_on_either_side(env_id):
    envs = make_envs(EnvConfig(id=env_id, info_keywords=["success", "fell", "success_above"]), 20)
    found = evaluate(detour_walker, one_number, envs, 40, 0, torch.Generator().manual_seed(0))
    assert np.mean([episode.extra["success"] for episode in found]) >= 0.95
    assert 0.25 < np.mean([episode.extra["success_above"] for episode in found]) < 0.75
    envs.close()


def test_straight_ahead_runs_into_the_obstacle():
    env = Detour()
    env.reset(seed=0)
    for _ in range(20):
        _, reward, terminated, _, info = env.step(np.array([1.0, 0.0]))
        if terminated:
            break
    assert info["fell"] and reward == 0.0


def test_a_picture_tells_the_place():
    env = Detour(pixels=True)
    env.reset(seed=0)
    for place in ([0.5, -0.7], [-0.9, 0.03], [0.0, 0.8]):
        env.position = np.array(place)
        found = middle_of(env._obs().transpose(2, 0, 1)[None])[0]
        assert np.abs(found - place).max() < 0.03
    assert env.observation_space.contains(env._obs())


def test_heaps_pay_by_their_number_and_nothing_off_them():
    env = EightModes()
    assert [env.step(centre)[1] for centre in CENTRES] == pytest.approx([k / 7 for k in range(8)])
    _, reward, terminated, _, info = env.step(np.zeros(2))
    assert reward == 0.0 and terminated and info["fell"]
