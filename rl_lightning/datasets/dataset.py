"""What a data set is once it is read: rows in order of time, each with the number of its episode."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.datasets.formats.raw import missing_from
from rl_lightning.datasets.references import Reference
from rl_lightning.errors import DataError
from rl_lightning.types import EnvSpec


class Dataset(NamedTuple):
    """Recorded experience. No row crosses an episode, and the last row of each episode says how it ended."""

    name: str  # as the user wrote it
    spec: EnvSpec  # env_id is "" where no env is known
    obs: Tensor  # [N, O] float32, or bytes where observations have several parts
    action: Tensor  # [N, A] float32 in [-1, 1]; int64 [N] or [N, K] where actions are discrete
    reward: Tensor  # [N]
    next_obs: Tensor  # [N, O], the true one also where an episode ends, unless next_known says otherwise
    terminated: Tensor  # [N] bool
    truncated: Tensor  # [N] bool, also where a recording broke off
    episode: Tensor  # [N] int64, 0, 0, 0, 1, 1, ...
    about: dict[str, Any]  # how it was made, and what was done to it while reading
    reference: Reference | None  # what normalised scores are measured by
    sha256: str  # of the file
    recording: (
        Tensor  # [N] int64: the episode itself, or that which it was part of before rows were taken out
    )
    next_known: (
        Tensor  # [N] bool; False: the last row of an episode whose next observation is not in the file
    )

    @property
    def rows(self) -> int:
        return len(self.reward)

    @property
    def episodes(self) -> int:
        return int(self.episode[-1]) + 1

    @property
    def broken_off(self) -> bool:
        """Whether the last episode has no end."""
        return self.about.get("read/last_episode") == "unfinished"

    @property
    def missing(self) -> tuple[str, ...]:
        """Those of rewards and terminals that the file does not have; zeros stand in for them."""
        return missing_from(self.about)

    def returns(self) -> Tensor:
        """Sum of rewards of each episode.  -> [episodes]"""
        total = torch.zeros(self.episodes, dtype=torch.float64)
        return total.index_add_(0, self.episode, self.reward.double())

    def lengths(self) -> Tensor:
        return torch.bincount(self.episode, minlength=self.episodes)

    def with_next(self) -> Dataset:
        """Without the rows whose next observation is not in the file."""
        columns: dict[str, Any] = {
            name: part[self.next_known] for name, part in self._asdict().items() if isinstance(part, Tensor)
        }
        return self._replace(**columns)

    def first(self, episodes: int) -> Dataset:
        """The first episodes that were recorded, all of them where there are no more."""
        place = torch.unique_consecutive(self.recording, return_inverse=True)[1]
        count = int((place < episodes).sum())
        columns: dict[str, Any] = {
            name: part[:count] for name, part in self._asdict().items() if isinstance(part, Tensor)
        }
        about = self.about
        if count < self.rows:  # what the file says of its last episode is not said of this one
            about = {key: value for key, value in about.items() if key != "read/last_episode"}
        return self._replace(**columns, about=about)


def check_env(name: str, stored: EnvSpec, spec: EnvSpec, fitted: bool = False) -> None:
    """Raises unless the data set `name`, of spec `stored`, has the shapes of the env that `spec` describes.

    Args:
        name: For messages.
        stored: What was recorded.
        spec: Of the env.
        fitted: Observations are pictures that are made to fit the env's.
    """
    flat_pictures = spec.is_pixels and stored.obs_shape == (math.prod(spec.obs_shape),)
    if stored.obs_shape != spec.obs_shape and not flat_pictures and not fitted:
        raise DataError(
            f"{name}: observations have shape {_shape(stored.obs_shape)}, those of {spec.env_id} have "
            f"{_shape(spec.obs_shape)}. It was recorded in another env: change data.env.id or the data set"
        )
    if stored.action_kind != spec.action_kind or stored.action_shape != spec.action_shape:
        raise DataError(
            f"{name}: actions are {_actions(stored)}, those of {spec.env_id} are {_actions(spec)}. "
            "It was recorded in another env: change data.env.id or the data set"
        )
    if any(have > most for have, most in zip(stored.action_sizes, spec.action_sizes, strict=True)):
        raise DataError(
            f"{name}: has an action number {max(stored.action_sizes) - 1}, {spec.env_id} knows "
            f"{', '.join(map(str, spec.action_sizes))} actions"
        )


def check_learner(rows: Dataset, learner: str, needs: tuple[str, ...]) -> None:
    """Raises if a data set does not have what a learner of that name learns from."""
    lacking = [key for key in rows.missing if key in needs]
    if "rewards" in lacking:
        raise DataError(
            f"{rows.name}: no 'rewards', which {learner} learns from. Demonstrations are imitated: use BC, or "
            "DiffusionPolicy with WindowData"
        )
    if lacking and " " in rows.name:  # arrays in memory, which nothing converts
        raise DataError(
            f"{rows.name}: no 'terminals', so {learner} cannot tell a failure from a time limit; give them, all False "
            "where episodes were cut"
        )
    if lacking:
        raise DataError(
            f"{rows.name}: no 'terminals', so {learner} cannot tell a failure from a time limit. If its episodes were "
            f"cut:\nrl data convert {rows.name} NEW.hdf5 --ends truncated\n"
            "or --ends terminated; BC and DiffusionPolicy learn from it as it is"
        )


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "()"


def _actions(spec: EnvSpec) -> str:
    return f"{spec.action_kind.replace('_', '-')} of shape {_shape(spec.action_shape)}"
