"""One episode, step by step, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rl_lightning import stop_request
from rl_lightning.rollout.collect import ActFn, add_reward, to_array
from rl_lightning.types import Carry


def trajectory(
    act: ActFn,
    initial_carry: Callable[[int], Carry],
    envs: Any,
    seed: int,
    generator: torch.Generator | None = None,
    reward_carry: int | None = None,
) -> dict[str, np.ndarray]:
    """Plays one episode in a vector of one env; actions are in the scale that the policy acts in.

    Returns:
        obs [T, *O], action [T, ...], reward, terminated and truncated [T].
    """
    steps: dict[str, list[Any]] = {key: [] for key in ("obs", "action", "reward", "terminated", "truncated")}
    obs, infos = envs.reset(seed=seed)
    carry, ended = initial_carry(1), False
    with torch.no_grad():
        while not ended:
            stop_request.raise_if_stopped()
            mask = torch.from_numpy(infos["action_mask"].copy()) if envs.env_spec.action_mask else None
            action, carry = act(torch.from_numpy(obs.copy()), carry, generator, mask)
            played = to_array(action)
            own_obs = obs[0].copy()
            obs, reward, terminated, truncated, infos = envs.step(played)
            carry = add_reward(carry, reward_carry, reward)
            row = (own_obs, played[0].copy(), reward[0], terminated[0], truncated[0])
            for column, value in zip(steps.values(), row, strict=True):
                column.append(value)
            ended = bool(terminated[0] or truncated[0])
    return {key: np.asarray(column) for key, column in steps.items()}
