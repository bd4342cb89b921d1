"""Replay of windows of consecutive rows, for models that remember: one ring of arrival rows per env.

Row t holds an observation, what was received on arriving there (reward, terminated, truncated) and the action taken
after seeing it. An episode's true last observation is a row of its own with a zero action; the first row has reward 0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.replay.replay_buffer import fit_capacity
from rl_lightning.replay.ring_segments import (
    ages,
    between,
    is_current,
    load_rings,
    rows_with_episode_ends,
    save_rings,
)
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.replay.window_samplers import UniformWindows, Windows, WindowsFactory
from rl_lightning.types import EnvSpec, Sequences, Steps

ARRAYS = ("obs", "action", "reward", "terminated", "truncated", "is_first", "age")


def row_bytes(spec: EnvSpec, latent_dim: int = 0) -> int:
    """Memory of one row."""
    obs = int(np.prod(spec.obs_shape)) * np.dtype(spec.obs_dtype).itemsize
    action = int(np.prod(spec.action_shape)) * (4 if spec.action_kind == "continuous" else 8)
    return obs + action + 4 + 3 + 4 + 4 * latent_dim


class SequenceReplay:
    """Keeps the newest rows of every env and draws windows of them.

    One ring per env, `ring` rows long. A window of `sequence_length` rows is known by its last row, as
    `env * ring + slot`. With every row a recurrent state of `latent_dim` numbers is kept; 0: none.

    Args:
        capacity: Rows to keep over all envs, or "auto" for half of the free memory (or disk), at most a million.
        windows: How windows are drawn.
        within_episode: No window crosses from one episode into the next; episodes shorter than a window are unused.
        memmap_dir: Folder for rows that memory cannot hold; null: in memory. A run leaves nothing there.
    """

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        sequence_length: int,
        latent_dim: int,
        /,
        capacity: int | str = 1_000_000,
        windows: WindowsFactory = UniformWindows,
        within_episode: bool = False,
        memmap_dir: str | None = None,
    ) -> None:
        self.spec, self.num_envs = spec, num_envs
        self.sequence_length, self.latent_dim = sequence_length, latent_dim
        self.within_episode = within_episode
        self.scratch = None if memmap_dir is None else _folder(memmap_dir)
        free = None if self.scratch is None else psutil.disk_usage(self.scratch.name).free
        self.capacity = fit_capacity(capacity, row_bytes(spec, latent_dim), num_envs, free)
        self.ring = self.capacity // num_envs
        if self.ring < sequence_length + 1:
            raise ConfigError(
                f"buffer.capacity is {self.capacity}, {self.ring} rows for each of {num_envs} envs; windows of "
                f"{sequence_length} rows need at least {(sequence_length + 1) * num_envs}"
            )
        continuous = spec.action_kind == "continuous"
        self.obs = self._array("obs", spec.obs_dtype, spec.obs_shape)
        self.action = self._array("action", "float32" if continuous else "int64", spec.action_shape)
        self.reward = self._array("reward", "float32")
        self.terminated = self._array("terminated", "bool")
        self.truncated = self._array("truncated", "bool")
        self.is_first = self._array("is_first", "bool")
        self.age = self._array("age", "int32")  # rows since the episode's first one
        self.latent = self._array("latent", "float32", (latent_dim,))  # recurrent state on arriving
        self.total = [0] * num_envs  # rows ever written, per env; the next one goes to total % ring
        self.next_age = [0] * num_envs
        self.pending_reward = np.zeros(
            num_envs, np.float32
        )  # reward of the newest step, which the next row arrives with
        self.owed_latent = np.zeros((num_envs, latent_dim), np.float32)
        self.cuts: list[tuple[int, int]] = []  # (env, row) after which an episode was broken off
        self.progress = 0.0  # fraction of the run that is over; the DataModule sets it before sampling
        self.window_sampler = make(windows, Windows, "data.buffer.windows", self)

    def _array(self, name: str, dtype: str, shape: tuple[int, ...] = ()) -> Tensor:
        whole = (self.num_envs, self.ring, *shape)
        if self.scratch is None or 0 in whole:
            return torch.from_numpy(np.zeros(whole, dtype))
        path = Path(self.scratch.name) / name
        return torch.from_numpy(np.memmap(path, dtype, "w+", shape=whole))

    def __len__(self) -> int:
        return sum(min(count, self.ring) for count in self.total)

    def add(self, steps: Steps, latents: np.ndarray | None = None) -> None:
        """Appends steps as rows. `latents` [T, N, W] is the recurrent state after each step."""
        most = self.ring // 2  # steps that fit with a last observation after each
        before = list(self.total)
        for start in range(0, len(steps.obs), most):
            part = steps if len(steps.obs) <= most else between(steps, start, start + most)
            part_latents = None if latents is None else latents[start : start + most]
            for n in range(self.num_envs):
                ends = {t: last for t, env, last in part.ends if env == n}
                self._add_env(n, part, n, ends, None if part_latents is None else part_latents[:, n])
        self.window_sampler.on_rows_written(before)

    def add_episode(self, env: int, episode: Steps) -> None:
        """Appends an episode that was recorded elsewhere, steps of one env, as if this env had played it."""
        most, before = self.ring // 2, list(self.total)
        for start in range(0, len(episode.obs), most):
            part = between(episode, start, start + most)
            self._add_env(env, part, 0, {t: last for t, _, last in part.ends}, None)
        self.window_sampler.on_rows_written(before)

    def _add_env(
        self, n: int, every: Steps, column: int, ends: dict[int, np.ndarray], latents: np.ndarray | None
    ) -> None:
        """Rows of the steps in this column, with the last observation of each episode that ends in them."""
        names = ("obs", "action", "reward", "terminated", "truncated", "is_first")
        steps = every._replace(**{name: getattr(every, name)[:, column] for name in names})
        count = len(steps.obs)
        after, place, lasts = rows_with_episode_ends(count, list(ends))
        total = count + len(after)
        slots = (self.total[n] + np.arange(total)) % self.ring
        at, last = slots[place], slots[lasts]
        first = place[steps.is_first]
        array = {name: getattr(self, name).numpy()[n] for name in (*ARRAYS, "latent")}
        array["obs"][at] = steps.obs
        for t, slot in zip(after, last, strict=True):
            array["obs"][slot] = ends[int(t)]
        array["action"][at], array["action"][last] = steps.action, 0
        array["reward"][slots], self.pending_reward[n] = self._arrived(
            steps.reward, self.pending_reward[n], place, first, total
        )
        for name, flag in (("terminated", steps.terminated), ("truncated", steps.truncated)):
            array[name][slots] = False
            array[name][last] = flag[after]
        starts = np.zeros(total, bool)
        starts[first] = True
        array["is_first"][slots] = starts
        array["age"][slots] = ages(starts, self.next_age[n])
        self.next_age[n] = int(array["age"][slots[-1]]) + 1
        if self.latent_dim:
            latent_rows = np.zeros((count, self.latent_dim), np.float32) if latents is None else latents
            array["latent"][slots], self.owed_latent[n] = self._arrived(
                latent_rows, self.owed_latent[n], place, first, total
            )
        self.total[n] += total

    @staticmethod
    def _arrived(values: np.ndarray, owed: Any, place: np.ndarray, first: np.ndarray, total: int) -> Any:
        """What each row arrives with, the step before having given it, and what the row to come will; 0 at a start."""
        rows = np.zeros((total + 1, *values.shape[1:]), np.float32)
        rows[0] = owed
        rows[place + 1] = values
        rows[first] = 0.0
        return rows[:total], rows[total]

    def sample(self, count: int, generator: torch.Generator) -> Sequences:
        """`count` windows as [B, L, ...]; refused where there is none."""
        index, weight = self.window_sampler.sample(count, generator)
        return self.gather(index)._replace(weight=weight)

    def gather(self, index: Tensor) -> Sequences:
        """The windows that end in the given rows."""
        env, slots = self._rows(index)
        fields = {name: getattr(self, name)[env, slots] for name in ARRAYS[:-1]}
        for name in ("terminated", "truncated"):
            fields[name] = fields[name].float()
        latent = self.latent[env[:, 0], slots[:, 0]] if self.latent_dim else None
        return Sequences(**fields, index=index, latent=latent)

    def _rows(self, index: Tensor) -> tuple[Tensor, Tensor]:
        back = torch.arange(self.sequence_length - 1, -1, -1)
        return (index // self.ring)[:, None], ((index % self.ring)[:, None] - back) % self.ring

    def valid(self, index: Tensor) -> Tensor:
        """Whether a whole window ends in the row and, where asked for, lies in one episode."""
        newer, older = is_current(index, self.total, self.ring)
        whole = (newer + older < self.ring) & (older >= self.sequence_length - 1)
        if self.within_episode:
            whole &= self.age[index // self.ring, index % self.ring] >= self.sequence_length - 1
        return whole

    def all_windows(self) -> Tensor:
        """The last rows of all windows there are."""
        index = torch.arange(self.num_envs * self.ring)
        return index[self.valid(index)]

    @property
    def ready(self) -> bool:
        """Whether there is any window to draw."""
        if max(self.total) < self.sequence_length:
            return False
        return not self.within_episode or bool(
            (self.age >= self.sequence_length - 1).any() and len(self.all_windows())
        )

    def set_priorities(self, index: Tensor, priority: Tensor) -> None:
        self.window_sampler.set_priorities(index.cpu(), priority.detach().cpu())

    def set_latents(self, index: Tensor, latent: Tensor) -> None:
        """Keeps states [B, L, W] that were found on leaving each row: the following row arrives with them."""
        env, slots = self._rows(index.cpu())
        begins = self.is_first[env, slots[:, 1:]].unsqueeze(-1)
        self.latent[env, slots[:, 1:]] = latent[:, :-1].detach().cpu().float().masked_fill(begins, 0.0)

    def end_episode(self, env: int) -> None:
        """The env's episode is broken off after its newest row, if it did not end there: what follows that is lost."""
        newest = self.total[env] - 1
        if newest >= 0 and not self._ended(env, newest % self.ring):
            self.cuts.append((env, newest))
            self._mark_cuts()
            self.pending_reward[env], self.owed_latent[env] = 0.0, 0.0

    def _ended(self, env: int, slot: int) -> bool:
        return bool(self.terminated[env, slot] or self.truncated[env, slot])

    def _mark_cuts(self) -> None:
        for env, row in self.cuts:
            if row >= self.total[env] - self.ring:
                self.truncated[env, row % self.ring] = True
                self.action[env, row % self.ring] = 0

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Rows as segments; stored states and priorities change after writing, so a checkpoint holds them whole."""
        save_rings(store, self._tensors(), self.total, self.ring)
        self.cuts = [(env, row) for env, row in self.cuts if row >= self.total[env] - self.ring]
        most = min(max(self.total), self.ring)
        return {
            "total": list(self.total),
            "next_age": list(self.next_age),
            "cuts": list(self.cuts),
            "pending_reward": torch.from_numpy(self.pending_reward.copy()),
            "owed_latent": torch.from_numpy(self.owed_latent.copy()),
            "latent": self.latent[:, :most].clone(),
            "window_sampler": self.window_sampler.state_dict(),
            "segments": list(store.records),
        }

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.total, self.next_age = list(state["total"]), list(state["next_age"])
        store.records = list(state["segments"])
        load_rings(store, self._tensors(), self.total, self.ring)
        self.cuts = [(env, row) for env, row in state["cuts"]]
        self._mark_cuts()
        self.pending_reward, self.owed_latent = (
            state["pending_reward"].numpy().copy(),
            state["owed_latent"].numpy().copy(),
        )
        self.latent[:, : state["latent"].shape[1]] = state["latent"]
        self.window_sampler.load_state_dict(state["window_sampler"])

    def _tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in ARRAYS}


def _folder(place: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of the buffer's own, which goes when the buffer does."""
    try:
        Path(place).mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix="replay-", dir=place)
    except OSError as error:
        raise ConfigError(f"buffer.disk: cannot write to {place} ({error.strerror})") from None


# Makes a buffer of windows: of what is played, the envs, the rows of a window, the width of a kept state.
SequenceReplayFactory = Callable[[EnvSpec, int, int, int], SequenceReplay]
