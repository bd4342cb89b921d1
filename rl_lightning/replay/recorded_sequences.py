"""Recorded episodes in a replay of windows, as if they had just been played."""

from __future__ import annotations

import numpy as np
import torch

from rl_lightning.datasets.dataset import Dataset
from rl_lightning.errors import ConfigError
from rl_lightning.replay.sequence import SequenceReplay
from rl_lightning.types import EnvSpec, Steps


def fill_with_episodes(buffer: SequenceReplay, rows: Dataset, spec: EnvSpec) -> None:
    """Writes every episode of a data set, each to the env with the fewest rows.

    Args:
        buffer: An empty one.
        rows: What was recorded.
        spec: Of the env that the buffer is for.
    """
    needed = rows.rows + rows.episodes  # a last observation after each
    longest = int(rows.lengths().max()) + 1
    if needed + buffer.num_envs * longest > buffer.capacity:
        raise ConfigError(
            f"{rows.name} has {rows.rows} rows in {rows.episodes} episodes; the buffer holds {buffer.capacity}. "
            f"Use --data.buffer.capacity {2 * (needed + buffer.num_envs * longest)}"
        )
    ends = rows.lengths().cumsum(0).tolist()
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        emptiest = min(range(buffer.num_envs), key=lambda env: buffer.total[env])
        buffer.add_episode(emptiest, episode_steps(rows, slice(start, end), spec))


def episode_steps(rows: Dataset, part: slice, spec: EnvSpec) -> Steps:
    """One episode as steps of one env; where a recording broke off it counts as truncated."""
    obs, following = (
        values.reshape(-1, *spec.obs_shape).to(getattr(torch, spec.obs_dtype)).numpy()
        for values in (rows.obs[part], rows.next_obs[part])
    )
    terminated, truncated = rows.terminated[part].numpy(), rows.truncated[part].numpy().copy()
    truncated[-1] |= not terminated[-1]
    is_first = np.zeros(len(obs), bool)
    is_first[0] = True
    played = {
        "obs": obs,
        "action": rows.action[part].numpy(),
        "reward": rows.reward[part].numpy(),
        "terminated": terminated,
        "truncated": truncated,
        "is_first": is_first,
    }
    ends = [(len(obs) - 1, 0, following[-1])]
    return Steps(
        **{key: column[:, None] for key, column in played.items()}, last_obs=following[-1:], ends=ends
    )
