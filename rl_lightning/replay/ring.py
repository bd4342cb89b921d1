"""Uniform replay of flat observations: one preallocated tensor of packed rows, one gather per block."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ResumeError
from rl_lightning.observations import FLOAT
from rl_lightning.replay.frames.frame_buffer import FrameBuffer
from rl_lightning.replay.replay_buffer import ReplayBuffer, fit_capacity
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps, Transitions


class Replay(ReplayBuffer):
    """Keeps the newest rows and samples them uniformly; frames are stored once each, all else as packed rows.

    Args:
        capacity: Rows to keep, or "auto" for half of the free memory and at most a million.
    """

    def __init__(self, spec: EnvSpec, num_envs: int, /, capacity: int | str = 1_000_000) -> None:
        stacked = spec.is_pixels or (spec.is_bytes and spec.num_stack > 1)
        kind = FrameBuffer if stacked else RingBuffer
        self.store: RingBuffer | FrameBuffer = kind(spec, num_envs, capacity)
        self.capacity = self.store.capacity
        self.progress = 0.0

    def __len__(self) -> int:
        return len(self.store)

    def add(self, steps: Steps) -> None:
        self.store.add(steps)

    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions:
        return self.store.sample(count, generator, n_step, gamma)

    def end_episode(self, env: int) -> None:
        self.store.end_episode(env)

    def save(self, store: SegmentStore) -> dict[str, Any]:
        return self.store.save(store)

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.store.load(state, store)


class Columns:
    """Where each field lies in a packed row: obs, action, reward, terminated, truncated, next_obs, masks."""

    def __init__(self, spec: EnvSpec) -> None:
        obs, action = int(np.prod(spec.obs_shape)), int(np.prod(spec.action_shape))
        if spec.is_bytes:  # four to a number, as they are
            obs //= FLOAT
        masks = spec.action_dim if spec.action_mask else 0
        self.widths = [obs, action, 1, 1, 1, obs, masks, masks]
        self.total = sum(self.widths)


class RingBuffer:
    """Packed float rows in time order, row t of env n at t * N + n, so that the next step of a row is N further on."""

    def __init__(self, spec: EnvSpec, num_envs: int, capacity: int | str) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.columns = Columns(spec)
        self.capacity = fit_capacity(capacity, 4 * self.columns.total, num_envs)
        self.rows = torch.empty(self.capacity, self.columns.total)
        self.cuts: list[int] = []  # rows after which an episode was broken off
        self.written = 0  # rows ever written; the head is written % capacity

    def __len__(self) -> int:
        return min(self.written, self.capacity)

    def add(self, steps: Steps) -> None:
        for start in range(0, len(steps.obs), self.capacity // self.num_envs):
            self.push(self._pack(steps, slice(start, start + self.capacity // self.num_envs)))

    def push(self, packed: Tensor) -> None:
        """Writes at most `capacity` packed rows over the oldest ones."""
        head, count = self.written % self.capacity, len(packed)
        first = min(count, self.capacity - head)
        self.rows[head : head + first] = packed[:first]
        self.rows[: count - first] = packed[first:]
        self.written += count

    def _pack(self, steps: Steps, times: slice) -> Tensor:
        length, n = steps.obs[times].shape[:2]
        following = np.concatenate([steps.obs[1:], steps.last_obs[None]])
        for t, env, last in steps.ends:
            following[t, env] = last
        fields = [steps.obs, steps.action, steps.reward, steps.terminated, steps.truncated, following]
        if steps.mask is not None and steps.last_mask is not None:
            # After an end the next mask belongs to another episode: every action counts as legal there.
            next_mask = np.concatenate([steps.mask[1:], steps.last_mask[None]])
            next_mask |= (steps.terminated | steps.truncated)[..., None]
            fields += [steps.mask, next_mask]
        flat = [self._numbers(field[times]).reshape(length * n, -1) for field in fields]
        return torch.from_numpy(np.concatenate(flat, axis=1))

    def _numbers(self, field: np.ndarray) -> np.ndarray:
        """A field as float32; rows of bytes keep their bits, four in the place of a number."""
        if self.spec.is_bytes and field.dtype == np.uint8:
            return np.ascontiguousarray(field).view(np.float32)
        return np.asarray(field, np.float32)

    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions:
        index = torch.randint(len(self), (count,), generator=generator)
        return self.gather(index, n_step, gamma)

    def gather(self, index: Tensor, n_step: int, gamma: float) -> Transitions:
        obs, action, reward, terminated, truncated, next_obs, mask, next_mask = self._split(self.rows[index])
        discount = torch.full_like(reward, gamma)
        if n_step > 1:
            last, reward, discount = self._n_step(index, reward, terminated + truncated > 0, n_step, gamma)
            _, _, _, terminated, _, next_obs, _, next_mask = self._split(self.rows[last])
        return Transitions(
            obs,
            action if self.spec.action_kind == "continuous" else action.long(),
            reward,
            next_obs,
            terminated,
            discount,
            torch.ones_like(reward),
            index,
            mask > 0 if self.spec.action_mask else None,
            next_mask > 0 if self.spec.action_mask else None,
        )

    def _split(self, rows: Tensor) -> list[Tensor]:
        obs, action, reward, terminated, truncated, next_obs, mask, next_mask = rows.split(
            self.columns.widths, 1
        )
        shape = self.spec.obs_shape
        if self.spec.is_bytes:
            obs, next_obs = obs.view(torch.uint8), next_obs.view(torch.uint8)
        elif len(shape) != 1:
            obs, next_obs = obs.reshape(-1, *shape), next_obs.reshape(-1, *shape)
        action = action.reshape(-1, *self.spec.action_shape)
        return [obs, action, reward[:, 0], terminated[:, 0], truncated[:, 0], next_obs, mask, next_mask]

    def _n_step(
        self, index: Tensor, reward: Tensor, done: Tensor, n_step: int, gamma: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Last row, summed reward and discount of up to n steps; stops at an episode's end and at the newest row."""
        column = sum(self.columns.widths[:2])
        last, discount = index, torch.full_like(reward, gamma)
        for _ in range(n_step - 1):
            following = (last + self.num_envs) % self.capacity
            newest = (self.written - 1 - last) % self.capacity < self.num_envs
            go = ~(done | newest)
            last = torch.where(go, following, last)
            tail = self.rows[last, column : column + 3]
            reward = torch.where(go, reward + discount * tail[:, 0], reward)
            discount = torch.where(go, discount * gamma, discount)
            done = done | ~go | (tail[:, 1] + tail[:, 2] > 0)
        return last, reward, discount

    def cursor(self) -> int:
        """A bookmark for `fresh`."""
        return self.written

    def rows_since(self, marks: int, priority: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows written since `marks`, and the priority each starts with."""
        count = min(self.written - marks, self.capacity)
        index = np.arange(self.written - count, self.written) % self.capacity
        return index, np.full(count, priority)

    def end_episode(self, env: int) -> None:
        """The env's episode is broken off after its newest row: nothing is summed across."""
        row = (self.written - self.num_envs + env) % self.capacity
        if self.written:
            self.rows[row, sum(self.columns.widths[:4])] = 1.0
            self.cuts.append(self.written - self.num_envs + env)

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Puts new rows into the store; what is returned names all segments that hold living rows."""
        oldest = self.written - len(self)
        store.records = [record for record in store.records if record["end"] > oldest]
        start = max(oldest, store.records[-1]["end"] if store.records else 0)
        if start < self.written:
            index = torch.arange(start, self.written) % self.capacity
            store.append({"rows": self.rows[index]}, start, self.written)
        self.cuts = [row for row in self.cuts if row >= oldest]
        return {"written": self.written, "segments": list(store.records), "cuts": list(self.cuts)}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.written = state["written"]
        store.records = list(state["segments"])
        oldest = self.written - len(self)
        for record in store.records:
            rows = store.read(record).get("rows")
            start, end = record["start"], record["end"]
            if (
                rows is None
                or rows.shape != (end - start, self.columns.total)
                or rows.dtype != self.rows.dtype
            ):
                raise ResumeError(f"{store.folder / record['file']}: rows of another shape than this run's")
            first = max(start, oldest)
            self.rows[torch.arange(first, end) % self.capacity] = rows[first - start :]
        self.cuts = list(state["cuts"])
        for row in self.cuts:
            self.rows[row % self.capacity, sum(self.columns.widths[:4])] = 1.0
