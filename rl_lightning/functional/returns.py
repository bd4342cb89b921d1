"""Returns and advantages over T steps of N envs. The last row of a rollout always bootstraps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class RolloutSteps(NamedTuple):
    """What returns are made of; all [T, N]."""

    reward: Tensor
    value: Tensor  # of the observation that a step begins with
    next_value: Tensor  # of the true observation after the step, also where an episode was cut there
    terminated: Tensor  # gates the bootstrap
    episode_end: Tensor  # terminated or truncated; gates the recursion
    gamma: float


def reverse_scan(inputs: Tensor, decay: Tensor) -> Tensor:
    """y[t] = inputs[t] + decay[t] * y[t+1], with nothing after the last row.  [T, N], [T, N] -> [T, N]

    By doubling: log2(T) vectorised passes instead of T tiny ones.
    """
    assert inputs.shape == decay.shape, (inputs.shape, decay.shape)
    needs_grad = torch.is_grad_enabled() and (inputs.requires_grad or decay.requires_grad)
    if inputs.device.type == "cpu" and not needs_grad:
        return torch.from_numpy(_scan_numpy(inputs.detach().numpy().copy(), decay.detach().numpy().copy()))
    return _scan_torch(inputs, decay)


def _scan_numpy(inputs: np.ndarray, decay: np.ndarray) -> np.ndarray:
    """A quarter of torch's cost on small arrays; works in the two arrays given."""
    steps, shift = len(inputs), 1
    while shift < steps:
        inputs[:-shift] += decay[:-shift] * inputs[shift:]
        decay[:-shift] *= decay[shift:]
        shift *= 2
    return inputs


def _scan_torch(inputs: Tensor, decay: Tensor) -> Tensor:
    """Differentiable in both arguments, on any device."""
    steps, shift = len(inputs), 1
    while shift < steps:
        ahead = torch.addcmul(inputs[:-shift], decay[:-shift], inputs[shift:])
        inputs = torch.cat((ahead, inputs[-shift:]))
        if 2 * shift < steps:
            # rows whose product reaches past the end are never read again
            decay = torch.cat((decay[:-shift] * decay[shift:], decay[-shift:]))
        shift *= 2
    return inputs


def _alive(flag: Tensor, like: Tensor) -> Tensor:
    return 1.0 - flag.to(like.dtype)


def one_step(steps: RolloutSteps) -> Tensor:
    """r + gamma * V(next), without the second term where the episode terminated."""
    reward, next_value = steps.reward, steps.next_value
    assert reward.shape == next_value.shape == steps.terminated.shape, (reward.shape, next_value.shape)
    alive = _alive(steps.terminated, reward)
    return torch.addcmul(reward, alive, next_value.to(reward.dtype), value=steps.gamma)


def lambda_return(steps: RolloutSteps, lam: float) -> Tensor:
    """G[t] = r[t] + gamma * ((1 - lam) * V(next) + lam * G[t+1]), with lam 0 where an episode ends."""
    reward, gamma = steps.reward, steps.gamma
    onward = _alive(steps.episode_end, reward) * lam
    onward[-1] = 0.0
    bootstrap = _alive(steps.terminated, reward) * steps.next_value * (1.0 - onward)
    return reverse_scan(reward + gamma * bootstrap, gamma * onward)


def discounted_return(steps: RolloutSteps) -> Tensor:
    """Discounted sum of rewards up to the end of the episode or of the rollout, then the value there."""
    return lambda_return(steps, 1.0)


def n_step_return(steps: RolloutSteps, n: int) -> Tensor:
    """Up to n rewards, then the value; the walk also stops where an episode or the rollout ends."""
    assert n >= 1, n
    target = one_step(steps)
    if len(target) == 1:
        return target
    ends = steps.episode_end[:-1].bool()
    first = target
    for _ in range(min(n, len(target)) - 1):
        longer = torch.where(ends, first[:-1], steps.reward[:-1] + steps.gamma * target[1:])
        target = torch.cat((longer, first[-1:]))
    return target


def gae(steps: RolloutSteps, lam: float) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates and the value targets that belong to them."""
    reward, value = steps.reward, steps.value
    assert value.shape == reward.shape, (value.shape, reward.shape)
    delta = one_step(steps) - value
    advantage = reverse_scan(delta, (steps.gamma * lam) * _alive(steps.episode_end, reward))
    return advantage, advantage + value


# Imagined trajectories: H+1 states of N rollouts, [H+1, N]. `reward[t]` is what arriving at state t gave, `live[t]` the
# discount of going on from there (gamma, 0 where the episode is over). R_H is always the last value.


def arrival_lambda_return(reward: Tensor, value: Tensor, live: Tensor, lam: Tensor | float) -> Tensor:
    """Returns [H, N] of states 0 ... H-1, each without what arriving there had given (Dreamer v3).

    R[t] = reward[t+1] + live[t+1] * ((1 - lam[t+1]) * value[t+1] + lam[t+1] * R[t+1])
    """
    assert reward.shape == value.shape == live.shape, (reward.shape, value.shape, live.shape)
    return _imagined(reward[1:], value[1:], live[1:], lam if isinstance(lam, float) else lam[1:])


def arrival_n_step_return(reward: Tensor, value: Tensor, live: Tensor, n: int) -> Tensor:
    """Returns [H, N] of states 0 ... H-1 by at most n rewards, each without what arriving there had given.

    R1[t] = reward[t+1] + live[t+1] * value[t+1];  Rn[t] = reward[t+1] + live[t+1] * Rn-1[t+1]
    """
    assert reward.shape == value.shape == live.shape, (reward.shape, value.shape, live.shape)
    one = target = reward[1:] + live[1:] * value[1:]
    for _ in range(min(n, len(one)) - 1):
        target = torch.cat((reward[1:-1] + live[1:-1] * target[1:], one[-1:]))
    return target


def state_lambda_return(reward: Tensor, value: Tensor, live: Tensor, lam: float) -> Tensor:
    """Returns [H, N] of states 0 ... H-1, each with what arriving there had given (Dreamer v1 and v2).

    R[t] = reward[t] + live[t] * ((1 - lam) * value[t+1] + lam * R[t+1])
    """
    assert reward.shape == value.shape == live.shape, (reward.shape, value.shape, live.shape)
    return _imagined(reward[:-1], value[1:], live[:-1], lam)


def _imagined(reward: Tensor, value: Tensor, live: Tensor, lam: Tensor | float) -> Tensor:
    """R[t] = reward[t] + live[t] * ((1 - lam) * value[t] + lam * R[t+1]); the last row takes its value whole."""
    onward = live * lam
    inputs = reward + (live - onward) * value
    last = reward[-1:] + live[-1:] * value[-1:]
    return reverse_scan(torch.cat((inputs[:-1], last)), onward)


def returns_to_go(reward: Tensor, episode: Tensor) -> Tensor:
    """Sum of the rewards from each row to the end of its episode, undiscounted.  [N], [N] rising -> [N]"""
    assert reward.shape == episode.shape, (reward.shape, episode.shape)
    so_far = reward.double().cumsum(0)
    _, place, lengths = torch.unique_consecutive(episode, return_inverse=True, return_counts=True)
    last = lengths.cumsum(0) - 1
    return (so_far[last][place] - so_far + reward).to(reward.dtype)
