"""Experience made up at random, and lists that say what a buffer must hold of it."""

from typing import NamedTuple

import numpy as np

from rl_lightning.types import EnvSpec, Steps


class Row(NamedTuple):
    obs: np.ndarray
    action: int
    reward: float
    next_obs: np.ndarray
    terminated: bool
    truncated: bool
    mask: np.ndarray
    next_mask: np.ndarray
    slot: int  # its place among the frames of its env, last frames counted
    age: int  # steps since the episode's first one

    @property
    def done(self) -> bool:
        return self.terminated or self.truncated


def vector_spec(**fields) -> EnvSpec:
    base = {"action_kind": "discrete", "action_sizes": (3,)}
    return EnvSpec("fake", (2,), **{**base, **fields})


def pixel_spec(frames: int, **fields) -> EnvSpec:
    base = {"action_kind": "discrete", "action_sizes": (3,), "num_stack": frames}
    return EnvSpec("fake", (2 * frames, 2, 3), "uint8", **{**base, **fields})  # frames of two channels


class Player:
    """Plays N imaginary envs; every frame is unlike all others of its env, every reward is a row's own name.

    `rows[n]` is all that ever happened in env n.
    """

    def __init__(self, spec: EnvSpec, num_envs: int, seed: int, end: float = 0.3):
        self.spec, self.num_envs, self.end = spec, num_envs, end
        self.rng = np.random.default_rng(seed)
        self.rows: list[list[Row]] = [[] for _ in range(num_envs)]
        self.slots = [0] * num_envs
        self.frames: list[list[np.ndarray]] = [[self._frame(n)] for n in range(num_envs)]  # of the episode
        self.masks = [self._mask() for _ in range(num_envs)]

    def _frame(self, n: int) -> np.ndarray:
        if not self.spec.is_pixels:
            return self.rng.random(self.spec.obs_shape).astype(np.float32)
        shape = (self.spec.obs_shape[0] // self.spec.num_stack, *self.spec.obs_shape[1:])
        return self.rng.integers(0, 256, shape).astype(np.uint8)

    def _mask(self) -> np.ndarray:
        mask = self.rng.random(self.spec.action_dim) < 0.5
        mask[self.rng.integers(self.spec.action_dim)] = True
        return mask

    def _obs(self, n: int) -> np.ndarray:
        """What stacking in the env shows: the last frames of the episode, its first one repeated before it."""
        if not self.spec.is_pixels:
            return self.frames[n][-1]
        padded = [self.frames[n][0]] * self.spec.num_stack + self.frames[n]
        return np.concatenate(padded[-self.spec.num_stack :])

    def play(self, steps: int) -> Steps:
        n, spec = self.num_envs, self.spec
        obs = np.zeros((steps, n, *spec.obs_shape), spec.obs_dtype)
        action = np.zeros((steps, n), np.int64)
        reward = np.zeros((steps, n), np.float32)
        terminated, truncated, is_first = (np.zeros((steps, n), bool) for _ in range(3))
        mask = np.zeros((steps, n, spec.action_dim), bool)
        ends = []
        for t in range(steps):
            for i in range(n):
                row = self._step(i)
                obs[t, i], action[t, i], reward[t, i], mask[t, i] = row.obs, row.action, row.reward, row.mask
                terminated[t, i], truncated[t, i], is_first[t, i] = (
                    row.terminated,
                    row.truncated,
                    row.age == 0,
                )
                if row.done:
                    ends.append((t, i, row.next_obs))
        last = np.stack([self._obs(i) for i in range(n)])
        masks = (mask, np.stack(self.masks)) if spec.action_mask else (None, None)
        return Steps(obs, action, reward, terminated, truncated, is_first, last, ends, *masks)

    def _step(self, n: int) -> Row:
        obs, mask, age = self._obs(n), self.masks[n], len(self.frames[n]) - 1
        self.frames[n].append(self._frame(n))
        self.masks[n] = self._mask()
        over, cut = self.rng.random() < self.end, self.rng.random() < 0.5
        next_mask = np.ones_like(mask) if over else self.masks[n]
        name = float(len(self.rows[n]) * self.num_envs + n)
        flags = (over and not cut, over and cut)
        action = int(self.rng.integers(3))
        row = Row(obs, action, name, self._obs(n), *flags, mask, next_mask, self.slots[n], age)
        self.rows[n].append(row)
        self.slots[n] += 2 if over else 1
        if over:
            self.frames[n] = [self._frame(n)]
        return row

    def find(self, name: float) -> tuple[int, int]:
        """(env, index in its rows) of the row with this reward."""
        return int(name) % self.num_envs, int(name) // self.num_envs

    def n_step(self, env: int, index: int, steps: int, gamma: float, known: int) -> tuple[float, float, Row]:
        """(summed reward, discount, last row) of at most `steps` rows, not past an end nor past row `known`."""
        total, discount = 0.0, 1.0
        for place, row in enumerate(self.rows[env][index : index + steps], start=index):
            total += discount * row.reward
            discount *= gamma
            if row.done or place >= known:
                break
        return total, discount, row
