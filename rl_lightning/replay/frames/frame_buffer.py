"""Uniform replay of stacked pictures: each is stored once, stacks and next observations are rebuilt when sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.replay.frames.frame_layout import FrameLayout, PartsLayout
from rl_lightning.replay.replay_buffer import fit_capacity
from rl_lightning.replay.ring_segments import ages, between, load_rings, rows_with_episode_ends, save_rings
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps, Transitions

ARRAYS = ("frame", "action", "reward", "terminated", "episode_end", "age", "is_step", "mask")


class FrameBuffer:
    """One ring per env. An episode's true last frame takes a slot of its own, which is never sampled.

    A stack of k frames at slot t is slots t-k+1 ... t, held back at the episode's first frame: what stacking in the
    env gives. So a row costs one frame instead of 2k.
    """

    def __init__(self, spec: EnvSpec, num_envs: int, capacity: int | str) -> None:
        self.spec = spec
        self.num_envs = num_envs
        self.layout = PartsLayout(spec) if spec.is_bytes else FrameLayout(spec)
        self.frame_shape = self.layout.shape
        masks = spec.action_dim if spec.action_mask else 0
        small = 4 * (int(np.prod(spec.action_shape)) + 5 + masks)
        self.capacity = fit_capacity(capacity, int(np.prod(self.frame_shape)) + small, num_envs)
        self.length = self.capacity // num_envs
        shortest = (
            spec.num_stack + 2
        )  # a whole stack, the frame after it, and the first one of the next episode
        if self.length < shortest:
            raise ConfigError(
                f"buffer.capacity is {self.capacity}, {self.length} frames for each of {num_envs} envs; stacks of "
                f"{spec.num_stack} need at least {shortest * num_envs}"
            )
        n, length = num_envs, self.length
        # Zeros of numpy: pages that nothing was written to take no memory, and no time.
        self.frame = torch.from_numpy(np.zeros((n, length, *self.frame_shape), np.uint8))
        dtype = torch.float32 if spec.action_kind == "continuous" else torch.int64
        self.action = torch.zeros(n, length, *spec.action_shape, dtype=dtype)
        self.reward = torch.zeros(n, length)
        self.terminated = torch.zeros(n, length, dtype=torch.bool)
        self.episode_end = torch.zeros(n, length, dtype=torch.bool)
        self.age = torch.zeros(n, length, dtype=torch.int32)  # steps since the episode's first frame
        self.is_step = torch.zeros(
            n, length, dtype=torch.bool
        )  # False: a last frame, no action was taken there
        self.mask = torch.ones(n, length, masks, dtype=torch.bool)
        # Writing through numpy costs a tenth of writing through torch.
        self._array = {name: getattr(self, name).numpy() for name in ARRAYS}
        self.total = [0] * n  # slots ever written, per env; the next one to write is total % length
        self.next_age = [0] * n
        self.cuts: list[tuple[int, int]] = []  # (env, slot) whose next frame was lost

    @property
    def head(self) -> list[int]:
        return [count % self.length for count in self.total]

    @property
    def filled(self) -> list[int]:
        return [min(count, self.length) for count in self.total]

    def __len__(self) -> int:
        return sum(self.filled)

    def add(self, steps: Steps) -> None:
        if steps.is_first[0].any():
            steps = self._add_past(steps)
        most = self.length // 2  # steps that fit with a last frame after each
        for start in range(0, len(steps.obs), most):
            part = steps if len(steps.obs) <= most else between(steps, start, start + most)
            for n in range(self.num_envs):
                self._add_env(n, part, {t: last for t, env, last in part.ends if env == n})

    def _add_past(self, steps: Steps) -> Steps:
        """Rows may begin within an episode. The frames that their first stacks show besides the newest are kept too,
        in slots that are never sampled; returns the steps that follow these."""
        is_first = steps.is_first.copy()
        for n in np.flatnonzero(is_first[0]):
            stack = self.layout.split(steps.obs[0, n])
            if (stack == stack[-1]).all():
                continue  # an episode's own start: its first frame is repeated
            slots = (self.head[n] + np.arange(len(stack) - 1)) % self.length
            self._array["frame"][n, slots] = stack[:-1]
            self._array["is_step"][n, slots] = False
            self._array["age"][n, slots] = np.arange(len(slots))
            self.next_age[n] = len(slots)
            self.total[n] += len(slots)
            is_first[0, n] = False
        return steps._replace(is_first=is_first)

    def _add_env(self, n: int, steps: Steps, ends: dict[int, np.ndarray]) -> None:
        array, newest, count = self._array, self.layout.newest, len(steps.obs)
        after, spread_steps, lasts = rows_with_episode_ends(count, list(ends))
        total = count + len(after)
        slots = (self.head[n] + np.arange(total)) % self.length
        at = slots[spread_steps]
        array["frame"][n, at] = newest(steps.obs[:, n])
        array["action"][n, at] = steps.action[:, n]
        array["reward"][n, at] = steps.reward[:, n]
        array["terminated"][n, at] = steps.terminated[:, n]
        array["episode_end"][n, at] = steps.terminated[:, n] | steps.truncated[:, n]
        array["is_step"][n, at] = True
        array["is_step"][n, slots[lasts]] = False
        if steps.mask is not None:
            array["mask"][n, at] = steps.mask[:, n]
            array["mask"][n, slots[lasts]] = True
        for t, place in zip(after, lasts, strict=True):
            array["frame"][n, slots[place]] = newest(ends[int(t)])
        starts = np.zeros(total, bool)
        starts[spread_steps[steps.is_first[:, n]]] = True
        array["age"][n, slots] = ages(starts, self.next_age[n])
        self.next_age[n] = int(array["age"][n, slots[-1]]) + 1
        self.total[n] += total

    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions:
        return self.gather(self._draw(count, generator), n_step, gamma)

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Slots that hold a step whose next frame is written, drawn again until all are."""
        index = torch.empty(0, dtype=torch.int64)
        while len(index) < count:
            env = torch.randint(self.num_envs, (count,), generator=generator)
            back = torch.rand(count, generator=generator)
            filled = torch.tensor(self.filled)[env]
            slot = (torch.tensor(self.head)[env] - 1 - (back * filled).long()) % self.length
            slots = env * self.length + slot
            index = torch.cat([index, slots[self.valid(slots)]])
        return index[:count]

    def valid(self, index: Tensor) -> Tensor:
        """A step, not the newest slot of its env, and with its whole stack still in the ring."""
        env, slot = index // self.length, index % self.length
        head, filled = torch.tensor(self.head)[env], torch.tensor(self.filled)[env]
        from_newest = (head - 1 - slot) % self.length
        from_oldest = filled - 1 - from_newest
        stack = torch.minimum(self.age[env, slot], torch.tensor(self.spec.num_stack - 1)).long()
        return self.is_step[env, slot] & (from_newest > 0) & (from_newest < filled) & (from_oldest >= stack)

    def gather(self, index: Tensor, n_step: int, gamma: float) -> Transitions:
        env, slot = index // self.length, index % self.length
        reward = self.reward[env, slot]
        discount = torch.full_like(reward, gamma)
        last, done = slot, self.episode_end[env, slot]
        head = torch.tensor(self.head)[env]
        for _ in range(n_step - 1):
            following = (last + 1) % self.length
            go = ~done & ((head - 1 - following) % self.length > 0)
            last = torch.where(go, following, last)
            reward = torch.where(go, reward + discount * self.reward[env, last], reward)
            discount = torch.where(go, discount * gamma, discount)
            done = done | ~go | self.episode_end[env, last]
        following = (last + 1) % self.length
        masked = self.spec.action_mask
        return Transitions(
            self._stack(env, slot),
            self.action[env, slot],
            reward,
            self._stack(env, following),
            self.terminated[env, last].float(),
            discount,
            torch.ones_like(reward),
            index,
            self.mask[env, slot] if masked else None,
            self.mask[env, following] if masked else None,
        )

    def _stack(self, env: Tensor, slot: Tensor) -> Tensor:
        age = self.age[env, slot].long()
        back = torch.arange(self.spec.num_stack - 1, -1, -1)
        slots = (slot[:, None] - torch.minimum(back, age[:, None])) % self.length
        return self.layout.stack(self.frame[env[:, None], slots])

    def cursor(self) -> list[int]:
        """A bookmark for `fresh`."""
        return list(self.total)

    def rows_since(self, marks: list[int], priority: float) -> tuple[np.ndarray, np.ndarray]:
        """Slots whose fitness for sampling changed since `marks`, and the priority each starts with.

        Last frames, the newest slot and slots whose stack was overwritten get none; the slot before `marks` was the
        newest then and may be drawn from now on.
        """
        index, priorities = [], []
        for n, (before, total) in enumerate(zip(marks, self.total, strict=True)):
            changed = (
                np.arange(max(before - 1, total - self.length, 0), total) % self.length + n * self.length
            )
            stale = (total + np.arange(self.spec.num_stack)) % self.length + n * self.length
            stale = stale[~self.valid(torch.from_numpy(stale)).numpy()]
            valid = self.valid(torch.from_numpy(changed)).numpy()
            index += [changed, stale]
            priorities += [np.where(valid, priority, 0.0), np.zeros(len(stale))]
        return np.concatenate(index), np.concatenate(priorities)

    def end_episode(self, env: int) -> None:
        """The env's episode is broken off: the frame after its newest step is lost, so that step is never drawn."""
        if self.total[env]:
            self.cuts.append((env, self.total[env] - 1))
            self._mark_cuts()

    def _mark_cuts(self) -> None:
        """The step before a lost frame is the last that counts: rewards are summed up to it and no further."""
        for env, slot in self.cuts:
            oldest = max(0, self.total[env] - self.length)
            if slot >= oldest:
                self.is_step[env, slot % self.length] = False
            if slot > oldest:
                self.episode_end[env, (slot - 1) % self.length] = True

    def save(self, store: SegmentStore) -> dict[str, Any]:
        """Puts new slots into the store; what is returned names all segments that hold living ones."""
        save_rings(store, self._tensors(), self.total, self.length)
        oldest = [max(0, count - self.length) for count in self.total]
        self.cuts = [(env, slot) for env, slot in self.cuts if slot >= oldest[env]]
        state = {"total": list(self.total), "next_age": list(self.next_age), "cuts": list(self.cuts)}
        return state | {"segments": list(store.records)}

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        self.total, self.next_age = list(state["total"]), list(state["next_age"])
        store.records = list(state["segments"])
        load_rings(store, self._tensors(), self.total, self.length)
        self.cuts = [(env, slot) for env, slot in state["cuts"]]
        self._mark_cuts()

    def _tensors(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in ARRAYS}
