"""The words that layers speak to each other in: plain NamedTuples of plain values and tensors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rl_lightning.observations import ObsLayout

Carry = tuple[Tensor, ...]  # recurrent state, rows first; all zeros at the start of an episode; () if none


class EnvSpec(NamedTuple):
    """What a model must know of an env or a data set.

    A continuous action is a float row in [-1, 1] wherever the env's bounds are finite (the env rescales it);
    a discrete one is an integer; a multi-discrete one is a row of integers.
    """

    env_id: str
    obs_shape: tuple[int, ...]
    obs_dtype: str = "float32"  # or "uint8" for pixels, channels first
    action_kind: str = "continuous"  # or "discrete", "multi_discrete"
    action_shape: tuple[int, ...] = ()  # of one stored action: (A,), () for discrete, (K,) for multi-discrete
    action_sizes: tuple[int, ...] = ()  # classes of each discrete component
    action_low: tuple[float, ...] = ()  # the env's own bounds of a continuous action
    action_high: tuple[float, ...] = ()
    num_stack: int = 1  # equal frames stacked on the first axis of an observation, newest last
    action_mask: bool = False  # the env says which discrete actions are legal
    max_episode_steps: int | None = None
    action_repeat: int = 1
    # name, kind ("vector", "discrete", "picture") and shape of each entry of a Dict or Tuple; see observations.py
    obs_parts: tuple[tuple[str, str, tuple[int, ...]], ...] = ()

    @property
    def obs_layout(self) -> tuple[int, ...] | ObsLayout:
        """What a network for these observations is made of: their shape, or their parts where they have several."""
        return ObsLayout.of(self.obs_parts) if self.obs_parts else self.obs_shape

    @property
    def is_bytes(self) -> bool:
        """Whether an observation is a row of bytes that holds several parts, pictures among them."""
        return self.obs_dtype == "uint8" and len(self.obs_shape) == 1

    @property
    def action_dim(self) -> int:
        """Width of a flat action: A, or the sum of the classes (one-hot)."""
        return sum(self.action_sizes) if self.action_sizes else math.prod(self.action_shape)

    @property
    def is_pixels(self) -> bool:
        return self.obs_dtype == "uint8" and len(self.obs_shape) == 3


class Transitions(NamedTuple):
    """Rows of experience. `discount` is gamma^k of a k-step row; it excludes `terminated`."""

    obs: Tensor  # [..., O]
    action: Tensor
    reward: Tensor
    next_obs: Tensor  # the true next observation, also where the episode ends
    terminated: Tensor  # float, 1 where the next state has no value
    discount: Tensor
    weight: Tensor  # importance weight of prioritized sampling, else 1
    index: Tensor  # type: ignore[assignment]  # where the row lies in its buffer
    mask: Tensor | None = None  # legal actions at obs
    next_mask: Tensor | None = None
    next_action: Tensor | None = None  # the recorded action at next_obs; any where the episode terminated
    is_real: Tensor | None = None  # [...] bool: recorded, not imagined


class Rollout(NamedTuple):
    """T consecutive steps of N envs, as they were played."""

    obs: Tensor  # [T, N, O]
    action: Tensor  # [T, N, ...] as drawn, before any clipping to the env's bounds
    reward: Tensor  # [T, N]
    terminated: Tensor  # [T, N] bool
    truncated: Tensor  # [T, N] bool
    is_first: Tensor  # [T, N] bool, obs starts an episode
    last_obs: Tensor  # [N, O] the observation that follows the last step
    final_obs: (
        Tensor  # [K, O] the true last observations of the K episodes cut by truncation, in order of (t, n)
    )
    carry: Carry  # the actor's recurrent state before the first step, rows [N, ...]
    last_carry: Carry  # ... and after the last one
    mask: Tensor | None = None  # [T, N, A] legal actions


class Steps(NamedTuple):
    """T steps of N envs as arrays, time first, fresh from a collector. `ends` lists each episode end as
    (t, n, true last observation)."""

    obs: np.ndarray  # [T, N, *O]
    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    is_first: np.ndarray
    last_obs: np.ndarray  # [N, *O]
    ends: list[tuple[int, int, np.ndarray]]
    mask: np.ndarray | None = None  # [T, N, A] legal actions at obs
    last_mask: np.ndarray | None = None  # [N, A]

    def rollout(self, carry: Carry, last_carry: Carry) -> Rollout:
        cut = [obs for t, n, obs in self.ends if not self.terminated[t, n]]
        final = np.stack(cut) if cut else np.empty((0, *self.last_obs.shape[1:]), self.last_obs.dtype)
        tensor = torch.from_numpy
        return Rollout(
            obs=tensor(self.obs),
            action=tensor(self.action),
            reward=tensor(self.reward),
            terminated=tensor(self.terminated),
            truncated=tensor(self.truncated),
            is_first=tensor(self.is_first),
            last_obs=tensor(self.last_obs),
            final_obs=tensor(final),
            carry=carry,
            last_carry=last_carry,
            mask=None if self.mask is None else tensor(self.mask),
        )


class Sequences(NamedTuple):
    """B windows of L consecutive arrival rows, batch first: reward, terminated and truncated belong to arriving at obs,
    the action is taken after it. An episode's last observation is a row of its own, with a zero action."""

    obs: Tensor  # [B, L, O]
    action: Tensor
    reward: Tensor  # [B, L], 0 in an episode's first row
    terminated: Tensor  # float
    truncated: Tensor  # float
    is_first: Tensor  # bool
    weight: Tensor | None = None  # [B] importance weight of prioritized drawing, else 1
    index: Tensor | None = None  # type: ignore[assignment]  # [B] where the window lies in its buffer
    latent: Tensor | None = None  # [B, W] recurrent state on arriving at the first row, where it is stored
    burn_in: int = 0  # leading rows that only warm a recurrent state up and are not learned from


class ActionWindows(NamedTuple):
    """Observations of the first steps of a stretch, and all of its actions."""

    obs: Tensor  # [B, T, *O]
    action: Tensor  # [B, H, A]


class ReturnWindows(NamedTuple):
    """B windows of K consecutive steps of an episode, and what each step still had coming."""

    obs: Tensor  # [B, K, *O]
    action: Tensor  # [B, K, ...]
    return_to_go: Tensor  # [B, K] sum of the rewards from the step to the end of its episode
    timestep: Tensor  # [B, K] steps since the episode began
    valid: Tensor  # [B, K] bool, False beyond the episode's end


class FrameWindow(NamedTuple):
    """B windows of L consecutive steps through frames, each stored once; L is 1 where single steps are learned."""

    stack: Tensor  # [B, F*C, H, W] uint8, what was seen before the first step
    frame: Tensor  # [B, L, C, H, W] uint8, the frame after each step
    action: Tensor  # [B, L]
    reward: Tensor  # [B, L]
    terminated: Tensor  # [B, L] bool
    value: Tensor  # [B, L] discounted rewards from the step on
    known: Tensor  # [B, L] bool, whether that sum is known
    past_stack: (
        Tensor  # [B, K, F*C, H, W] the stacks of the K steps before, oldest first; K is 0 without memory
    )
    past_action: Tensor  # [B, K]
    past_valid: Tensor  # [B, K] bool, False before the episode's start


class EpisodeStats(NamedTuple):
    """One finished episode; `extra` holds means over the episode of what the env reported (x_velocity, success)."""

    episode_return: float
    length: int
    seed: int | None = None
    extra: dict[str, float] = {}  # noqa: RUF012  (never mutated)
    cut: bool = False  # an evaluation ended it: the env would have gone on
