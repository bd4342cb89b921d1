"""Whole episodes out of a stream of steps, or of a data set, as arrival rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rl_lightning.artifacts import load_exported
from rl_lightning.datasets.in_memory import DatasetLike, look_at
from rl_lightning.envs.make import EnvConfig
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.world_models.episode_store import Recording
from rl_lightning.replay.frames.recorded_frames import recorded_episodes
from rl_lightning.replay.recorded_sequences import check_recorded, read_recorded
from rl_lightning.types import EnvSpec, Steps

Rows = dict[str, np.ndarray]  # obs, action, reward, terminated, truncated, is_first; one row per observation


class EpisodeSplitter:
    """Keeps what every env has played of its current episode, and hands it out when the episode ends.

    Args:
        num_envs: Envs of the stream.
    """

    def __init__(self, num_envs: int) -> None:
        self.open: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in range(num_envs)]

    def add(self, steps: Steps) -> list[Rows]:
        """The episodes that ended, in order of time."""
        episodes = []
        since = [0] * len(self.open)
        for t, n, last in steps.ends:
            self._keep(steps, n, since[n], t + 1)
            episodes.append(_rows(self.open[n], last, bool(steps.terminated[t, n])))
            self.open[n], since[n] = [], t + 1
        for n, start in enumerate(since):
            self._keep(steps, n, start, len(steps.obs))
        return episodes

    def _keep(self, steps: Steps, n: int, start: int, stop: int) -> None:
        if stop > start:
            part = [array[start:stop, n].copy() for array in (steps.obs, steps.action, steps.reward)]
            self.open[n].append((part[0], part[1], part[2]))

    def drop(self, env: int) -> None:
        """Forgets an episode that could not be taken up again."""
        self.open[env] = []

    def state_dict(self) -> dict[str, Any]:
        joined = [[np.concatenate(column) for column in zip(*parts, strict=True)] for parts in self.open]
        return {"open": [[torch.from_numpy(column) for column in columns] for columns in joined]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        arrays = [[column.numpy().copy() for column in columns] for columns in state["open"]]
        self.open = [[(c[0], c[1], c[2])] if c else [] for c in arrays]


def _rows(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], last: np.ndarray, terminated: bool) -> Rows:
    obs, action, reward = (np.concatenate(column) for column in zip(*parts, strict=True))
    count = len(obs) + 1
    flags = {name: np.zeros(count, bool) for name in ("terminated", "truncated", "is_first")}
    flags["is_first"][0] = True
    flags["terminated" if terminated else "truncated"][-1] = True
    return {
        "obs": np.concatenate([obs, last[None]]),
        "action": np.concatenate([action, np.zeros_like(action[:1])]),
        "reward": np.concatenate([np.zeros(1, np.float32), reward]),
        **flags,
    }


def joined(episodes: list[Rows]) -> Rows:
    return {name: np.concatenate([rows[name] for rows in episodes]) for name in episodes[0]}


def load_recording(
    artifact: Artifact | None, dataset: DatasetLike | None, env: EnvConfig, spec: EnvSpec
) -> Recording:
    """Episodes that an earlier stage recorded, or those of a data set.

    Args:
        artifact: Of the stage; null: the data set's.
        dataset: What was recorded elsewhere; null: the artifact's.
        env: Where they are of.
        spec: Of it.
    """
    if (artifact is None) == (dataset is None):
        raise ConfigError(
            "episodes are of data.recording, the artifact of a stage that recorded, or of data.dataset: give "
            "one of them"
        )
    if artifact is not None:
        return load_exported(artifact, "recording")  # type: ignore[return-value]  # whose name says what it is
    assert dataset is not None
    source = look_at(dataset)
    check_recorded(source, spec)
    recording, splitter = Recording.from_spec(spec), EpisodeSplitter(1)
    rows = read_recorded(source, "a world model")
    parts = [part for steps in recorded_episodes(rows, spec, env.palette) for part in splitter.add(steps)]
    recording.append(joined(parts))
    return recording
