"""Mazes of Gymnasium-Robotics as offline data know them: one start, one goal, over when it is reached, flat rows.

The AntMazes have the layouts, coordinates, goals and physics of D4RL's v2 files. Gymnasium-Robotics counts y upwards
from the middle of the maze and D4RL downwards from the start: the layout is turned upside down and the origin moved, so
that the ant itself needs no mirror. Its ant is D4RL's with another time step and other gears, which are set here.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rl_lightning.envs.wrappers.env_wrappers import RepeatedAction
from rl_lightning.errors import ConfigError
from rl_lightning.extras import pip_command

Layout = list[list[int | str]]
SCALE = 4.0  # of an AntMaze's cells
TIME_STEP, GEAR = 0.02, 30.0  # of D4RL's ant: ten decisions a second, torques up to 30
REACH = 0.5  # of a goal in D4RL
PUSHES = 5  # of the ball by one action: the way takes about 40 of them
DRIFT = (
    0.25,
    0.125,
)  # a goal lies beyond its cell's middle by two uniform numbers up to these fractions of a cell

_WALLS = {
    "umaze": ["#####", "#R  #", "### #", "#G  #", "#####"],
    "medium": ["########", "#R ##  #", "#  #   #", "##   ###", "#  #   #", "# #  # #", "#   # G#", "########"],
    "large": [
        "############", "#R   #     #", "# ## # # # #", "#      #   #", "# #### ### #", "#  # #     #", "## # # # ###",
        "#  #   # G #", "############",
    ],
}  # fmt: skip


def layout(name: str) -> Layout:
    """Rows from above: 1 is a wall, r the start, g the goal."""
    signs: dict[str, int | str] = {"#": 1, " ": 0, "R": "r", "G": "g"}
    return [[signs[sign] for sign in row] for row in _WALLS[name]]


def _robotics(what: str) -> Any:
    try:
        from rl_lightning.envs.suites import robotics
    except ImportError as error:
        raise ConfigError(f"{what} needs gymnasium-robotics: {pip_command('robotics')}") from error
    return robotics.gymnasium_robotics


class Flat(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Own state and goal in one row; the position stands there once."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(-np.inf, np.inf, (6,), np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        return np.concatenate((observation["observation"], observation["desired_goal"])).astype(np.float32)


class PointUMaze(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A ball in a U: position, velocity and goal; reward 1 and the end where the goal is reached.

    Args:
        render_mode: `rgb_array`, `human` or none.
    """

    def __init__(self, render_mode: str | None = None) -> None:
        _robotics("rl/PointUMaze-v0")
        from gymnasium_robotics.envs.maze.point_maze import PointMazeEnv

        env = PointMazeEnv(maze_map=layout("umaze"), continuing_task=False, render_mode=render_mode)
        super().__init__(RepeatedAction(Flat(env), PUSHES))


class D4RLAntMaze(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Position from the start and the ant's own state: 29 numbers in the order of D4RL's antmaze-*-v2 files.

    Args:
        maze: Which layout: umaze, medium or large; set by the id.
        render_mode: `rgb_array`, `human` or none.
    """

    def __init__(self, maze: str, render_mode: str | None = None) -> None:
        _robotics(f"rl/AntMaze-{maze}-v0")
        from gymnasium_robotics.envs.maze.ant_maze_v4 import AntMazeEnv

        rows = layout(maze)
        super().__init__(AntMazeEnv(maze_map=rows[::-1], continuing_task=False, render_mode=render_mode))
        self.observation_space = spaces.Box(-np.inf, np.inf, (29,), np.float32)
        half = np.array([len(rows[0]), len(rows)]) / 2.0
        places = {
            sign: (c, r) for r, row in enumerate(rows) for c, sign in enumerate(row) if sign in ("r", "g")
        }
        self.origin = (np.array(places["r"]) + 0.5 - half) * SCALE  # where D4RL's (0, 0) lies here
        self.goal_cell = (np.array(places["g"]) + 0.5 - half) * SCALE
        simulator = self.unwrapped.ant_env  # type: ignore[attr-defined]
        simulator.model.opt.timestep = TIME_STEP
        simulator.model.actuator_gear[:, 0] = GEAR

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        self.env.reset(seed=seed, options=options)
        base: Any = self.unwrapped
        draw = base.np_random
        base.goal = self.goal_cell + sum(SCALE * share * draw.uniform(0.0, 1.0, 2) for share in DRIFT)
        base.update_target_site_pos()
        ant = base.ant_env
        position, velocity = ant.init_qpos.copy(), ant.init_qvel.copy()
        position += draw.uniform(-0.1, 0.1, len(position))
        position[:2] = self.origin + draw.uniform(-0.1, 0.1, 2)
        ant.set_state(position, velocity + 0.1 * draw.standard_normal(len(velocity)))
        return self._row(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        base: Any = self.unwrapped
        base.ant_env.do_simulation(np.asarray(action, float), base.ant_env.frame_skip)
        away = float(np.linalg.norm(base.ant_env.data.qpos[:2] - base.goal))
        there = away <= REACH
        return self._row(), float(there), there, False, {"success": there}

    def _row(self) -> NDArray[np.float32]:
        data = self.unwrapped.ant_env.data  # type: ignore[attr-defined]
        row = np.concatenate((data.qpos[:15], data.qvel[:14]))
        row[:2] -= self.origin
        return row.astype(np.float32)
