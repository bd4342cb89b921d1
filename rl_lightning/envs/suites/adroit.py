"""Adroit's hand with D4RL's rewards.

Gymnasium-Robotics up to 1.4.2 pays the hand of door, hammer and relocate for being far from what it shall grasp: the
first term of the dense reward has the wrong sign. D4RL's reference scores belong to the right one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from rl_lightning.envs.registry import Env

DROPPED = 0.075  # height of the pen below which D4RL's episode ends


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b))


def door_reward(env: Any) -> float:
    """Palm to the handle, door open, slow; bonuses for the door's angle."""
    sites, angle = env.data.site_xpos, float(env.data.qpos[env.door_hinge_addrs])
    reward = -0.1 * _distance(sites[env.grasp_site_id], sites[env.handle_site_id])
    reward += -0.1 * (angle - 1.57) ** 2 - 1e-5 * float(np.sum(env.data.qvel**2))
    return reward + 2.0 * (angle > 0.2) + 8.0 * (angle > 1.0) + 10.0 * (angle > 1.35)


def hammer_reward(env: Any) -> float:
    """Palm to the hammer, its head to the nail, the nail to its goal, slow; bonuses for lifting and hammering."""
    sites, hammer = env.data.site_xpos, env.data.xpos[env.obj_body_id]
    head, nail = sites[env.tool_site_id], sites[env.target_obj_site_id]
    left = _distance(nail, sites[env.goal_site_id])
    reward = -0.1 * _distance(sites[env.S_grasp_site_id], hammer) - _distance(head, nail) - 10.0 * left
    reward -= 1e-2 * float(np.linalg.norm(env.data.qvel.ravel()))
    lifted = hammer[2] > 0.04 and head[2] > 0.04
    return reward + 2.0 * lifted + 25.0 * (left < 0.02) + 75.0 * (left < 0.01)


def relocate_reward(env: Any) -> float:
    """Palm to the ball; once it is lifted, both to the target; bonuses for being there."""
    palm, ball = env.data.site_xpos[env.S_grasp_site_id], env.data.xpos[env.obj_body_id]
    target = env.data.site_xpos[env.target_obj_site_id]
    left, reward = _distance(ball, target), -0.1 * _distance(palm, ball)
    if ball[2] > 0.04:
        reward += 1.0 - 0.5 * _distance(palm, target) - 0.5 * left
    return reward + 10.0 * (left < 0.1) + 20.0 * (left < 0.05)


REWARDS: dict[str, Callable[[Any], float]] = {
    "AdroitHandDoor-": door_reward,
    "AdroitHandHammer-": hammer_reward,
    "AdroitHandRelocate-": relocate_reward,
}


class DenseReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The dense reward as D4RL has it; a sparse one stays as it is.

    Args:
        env: One of Adroit's envs.
        reward: The reward of a state of that env.
    """

    def __init__(self, env: Env, reward: Callable[[Any], float]) -> None:
        super().__init__(env)
        self.reward_of = reward

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        inner: Any = self.env.unwrapped
        reward = float(reward) if inner.sparse_reward else float(self.reward_of(inner))
        return obs, reward, terminated, truncated, info


class EndsWhenDropped(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The pen's episode ends when it falls, as D4RL's does and Gymnasium-Robotics' does not."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        inner: Any = self.env.unwrapped
        dropped = bool(inner.data.xpos[inner.obj_body_id][2] < DROPPED)
        return obs, float(reward), bool(terminated) or dropped, truncated, info


def wrap(env: Env, env_id: str, ends_when_dropped: bool = False) -> Env:
    """The env with what differs from D4RL's put right, inside its time limit."""
    limited = isinstance(env, gymnasium.wrappers.TimeLimit)
    inner: Env = env.env if limited else env  # type: ignore[attr-defined]
    reward = next((reward_class for start, reward_class in REWARDS.items() if env_id.startswith(start)), None)
    if reward is not None:
        inner = DenseReward(inner, reward)
    if ends_when_dropped:
        inner = EndsWhenDropped(inner)
    if not limited:
        return inner
    env.env = inner  # type: ignore[attr-defined]
    return env
