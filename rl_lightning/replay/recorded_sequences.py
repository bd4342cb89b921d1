"""Recorded episodes in a replay of windows, as if they had just been played."""

from __future__ import annotations

import numpy as np
import torch

from rl_lightning.datasets.dataset import Dataset, check_env, check_learner
from rl_lightning.datasets.formats.pictures import (
    Frames,
    check_frames,
    fit_frames,
    picture_shape,
    stack_frames,
)
from rl_lightning.datasets.in_memory import OfflineSource
from rl_lightning.datasets.load import load_dataset
from rl_lightning.errors import ConfigError
from rl_lightning.replay.sequence import SequenceReplay
from rl_lightning.types import EnvSpec, Steps


def check_recorded(source: OfflineSource, spec: EnvSpec) -> None:
    """Raises unless what was recorded fits an env, or is pictures that can be made to."""
    picture = picture_shape(source.about) if spec.is_pixels else None
    fitted = picture is not None and picture != tuple(spec.obs_shape)
    if picture is not None and fitted:
        check_frames(source.name, picture, (spec.obs_shape[0] // spec.num_stack,))
    check_env(source.name, source.spec, spec, fitted)


def read_recorded(source: OfflineSource, learner: str) -> Dataset:
    """Its rows; raises where they lack what a model of whole steps learns from."""
    rows = load_dataset(source.name) if source.dataset is None else source.dataset
    check_learner(rows, learner, ("rewards", "terminals"))
    return rows


def fill_with_episodes(
    buffer: SequenceReplay, rows: Dataset, spec: EnvSpec, palette: Frames | None = None
) -> None:
    """Writes every episode of a data set, each to the env with the fewest rows.

    Args:
        buffer: An empty one.
        rows: What was recorded.
        spec: Of the env that the buffer is for.
        palette: RGB of each index that a pixel of the env may be; null: pixels are levels.
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
        buffer.add_episode(emptiest, episode_steps(rows, slice(start, end), spec, palette))


def episode_steps(rows: Dataset, part: slice, spec: EnvSpec, palette: Frames | None = None) -> Steps:
    """One episode as steps of one env; where a recording broke off it counts as truncated."""
    seen = seen_by_env(rows, part, spec, palette)
    obs, following = seen[:-1], seen[1:]
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


def seen_by_env(rows: Dataset, part: slice, spec: EnvSpec, palette: Frames | None = None) -> np.ndarray:
    """Observations of an episode of T steps as the env gives them, the last one behind them.  -> [T + 1, *O]

    Pictures of another shape are single frames, which are made to fit and stacked.
    """
    seen = torch.cat((rows.obs[part], rows.next_obs[part][-1:]))
    picture = picture_shape(rows.about) if spec.is_pixels else None
    if picture is None or picture == tuple(spec.obs_shape):
        return seen.reshape(-1, *spec.obs_shape).to(getattr(torch, spec.obs_dtype)).numpy()
    frame = (spec.obs_shape[0] // spec.num_stack, *spec.obs_shape[1:])
    frames = fit_frames(seen.reshape(-1, *picture).numpy(), frame, palette)
    return stack_frames(frames, spec.num_stack)
