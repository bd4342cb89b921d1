"""Hindsight experience replay (Andrychowicz et al. 2017): what was reached by chance is what was wanted."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from rl_lightning.envs.make import EnvConfig, make_env
from rl_lightning.errors import ConfigError
from rl_lightning.observations import ObsLayout
from rl_lightning.ranges import PositiveInt
from rl_lightning.replay.ring import Replay, RingBuffer
from rl_lightning.replay.segments import SegmentStore
from rl_lightning.types import EnvSpec, Steps, Transitions

GOALS = ("achieved_goal", "desired_goal")


class HER(Replay):
    """Uniform replay of finished episodes; most rows get a goal that their own episode reached later.

    The env's `compute_reward(achieved_goal, desired_goal, info)` rewards such rows anew, all in one call, and
    `compute_terminated`, where it has one, says row by row which of them end the episode.

    Args:
        capacity: Rows to keep, or "auto" for half of the free memory and at most a million.
        n_sampled_goal: Rows with a new goal for each one with its own.
        goal_selection_strategy: Where a new goal is reached: at or after the row (future), or at its episode's end
            (final).
    """

    def __init__(
        self,
        spec: EnvSpec,
        num_envs: int,
        /,
        capacity: int | str = 1_000_000,
        n_sampled_goal: PositiveInt = 4,
        goal_selection_strategy: Literal["future", "final"] = "future",
    ) -> None:
        self.achieved, self.desired = goal_columns(spec)
        super().__init__(spec, num_envs, capacity)
        if goal_selection_strategy not in ("future", "final"):
            raise ConfigError(
                f"buffer.goal_selection_strategy is {goal_selection_strategy!r}; it is future or final"
            )
        self.share = 1.0 - 1.0 / (n_sampled_goal + 1.0)
        self.strategy, self.num_envs = goal_selection_strategy, num_envs
        self.length = self.capacity // num_envs  # steps of each env that the ring holds
        self.last = np.zeros((self.length, num_envs), np.int64)  # the step that ends each row's episode
        self.start = np.zeros(num_envs, np.int64)  # the step that each env's unfinished episode began with
        self.env: Any = None
        self.checked = False

    @property
    def ring(self) -> RingBuffer:
        assert isinstance(self.store, RingBuffer)
        return self.store

    @property
    def oldest(self) -> int:
        """The first step that the ring still holds."""
        return (self.ring.written - len(self)) // self.num_envs

    def use_env(self, config: EnvConfig) -> None:
        self.env = make_env(config).unwrapped
        if not callable(getattr(self.env, "compute_reward", None)):
            raise ConfigError(
                f"HER needs an env with compute_reward(achieved_goal, desired_goal, info); {config.id} has none"
            )

    def add(self, steps: Steps) -> None:
        first = self.ring.written // self.num_envs
        super().add(steps)
        if not self.checked:
            self._check_rewards()
        for t, env in np.argwhere(steps.terminated | steps.truncated):
            self._close(int(env), first + int(t))

    def end_episode(self, env: int) -> None:
        super().end_episode(env)
        if self.ring.written:
            self._close(env, self.ring.written // self.num_envs - 1)

    def _close(self, env: int, last: int) -> None:
        """The env's episode ends with this step; its rows may be drawn from now on."""
        steps = np.arange(max(self.start[env], self.oldest), last + 1)
        self.last[steps % self.length, env] = last
        self.start[env] = last + 1

    def _check_rewards(self) -> None:
        """A wrapper that changes rewards would leave two kinds of them side by side."""
        newest = torch.arange(self.ring.written - self.num_envs, self.ring.written) % self.capacity
        rows = self.ring.gather(newest, 1, 1.0)
        anew = self._rewards(rows.next_obs[:, self.achieved], rows.obs[:, self.desired])
        if not torch.allclose(anew, rows.reward, atol=1e-4):
            raise ConfigError(
                f"compute_reward of {self.ring.spec.env_id} gives {anew[0]:g} where a step gave {rows.reward[0]:g}; "
                "HER needs rewards as the env makes them: no clip_rewards, action repeat or wrapper that changes them"
            )
        self.checked = True

    def sample(self, count: int, generator: torch.Generator, n_step: int, gamma: float) -> Transitions:
        """Before any episode is over, rows as they were played."""
        if n_step != 1:
            raise ConfigError("HER changes the reward of single transitions; set model.n_step to 1")
        finished = np.maximum(self.start - self.oldest, 0)
        if not finished.any():
            return super().sample(count, generator, n_step, gamma)
        bounds = torch.from_numpy(finished.cumsum())
        rank = torch.randint(int(bounds[-1]), (count,), generator=generator)
        env = torch.searchsorted(bounds, rank, right=True)
        step = self.oldest + rank - (bounds - torch.from_numpy(finished))[env]
        index = (step * self.num_envs + env) % self.capacity
        rows = self.ring.gather(index, n_step, gamma)
        new = torch.rand(count, generator=generator) < self.share
        place = torch.rand(count, generator=generator, dtype=torch.float64)
        return self._relabelled(rows, new, self._reached(step, env, place))

    def _reached(self, step: Tensor, env: Tensor, place: Tensor) -> Tensor:
        """The goal reached at a later step of each row's episode.  [B] thrice -> [B, G]"""
        last = torch.from_numpy(self.last)[step % self.length, env]
        if self.strategy == "future":
            last = step + (place * (last - step + 1)).long()
        return self.ring.gather((last * self.num_envs + env) % self.capacity, 1, 1.0).next_obs[
            :, self.achieved
        ]

    def _relabelled(self, rows: Transitions, new: Tensor, goal: Tensor) -> Transitions:
        obs, next_obs = rows.obs.clone(), rows.next_obs.clone()
        reward, terminated = rows.reward.clone(), rows.terminated.clone()
        wanted, achieved = goal[new], next_obs[new][:, self.achieved]
        for seen in (obs, next_obs):
            seen[:, self.desired] = torch.where(new[:, None], goal, seen[:, self.desired])
        reward[new] = self._rewards(achieved, wanted)
        if hasattr(self.env, "compute_terminated"):
            pairs = zip(achieved.numpy(), wanted.numpy(), strict=True)
            ends = [bool(self.env.compute_terminated(got, goal, {})) for got, goal in pairs]
            terminated[new] = torch.tensor(ends, dtype=terminated.dtype)
        return rows._replace(obs=obs, next_obs=next_obs, reward=reward, terminated=terminated)

    def _rewards(self, achieved: Tensor, desired: Tensor) -> Tensor:
        if self.env is None:
            raise ConfigError("HER is a buffer of OnlineData, which tells it the env")
        reward = np.asarray(self.env.compute_reward(achieved.numpy(), desired.numpy(), {}), np.float32)
        if reward.shape != achieved.shape[:1]:
            raise ConfigError(
                f"compute_reward of {self.ring.spec.env_id} gives an array of shape {reward.shape} for "
                f"{len(achieved)} goals; HER asks for all of a batch at once"
            )
        return torch.from_numpy(reward)

    def load(self, state: dict[str, Any], store: SegmentStore) -> None:
        super().load(state, store)
        column = sum(self.ring.columns.widths[:3])
        steps = torch.arange(self.oldest, self.ring.written // self.num_envs)
        over = self.ring.rows[:, column : column + 2].sum(1).view(self.length, self.num_envs) > 0
        self.start[:] = 0
        for at, env in over[steps % self.length].nonzero().tolist():
            self._close(env, int(steps[at]))


def goal_columns(spec: EnvSpec) -> tuple[slice, slice]:
    """Where the achieved and the desired goal lie in an observation's row."""
    layout, at, columns = ObsLayout.of(spec.obs_parts), 0, {}
    for part in layout.parts:
        columns[part.name] = slice(at, at + part.size)
        at += part.size
    sizes = {part.name: part.shape for part in layout.parts if part.kind == "vector"}
    if layout.has_pictures or not set(GOALS) <= sizes.keys() or len({sizes[name] for name in GOALS}) != 1:
        shown = ", ".join(columns) or "one array"
        raise ConfigError(
            f"HER needs observations of vectors with {GOALS[0]} and {GOALS[1]} of one shape; "
            f"{spec.env_id} shows {shown}"
        )
    return columns[GOALS[0]], columns[GOALS[1]]
