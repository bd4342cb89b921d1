"""Running statistics of observations and returns, kept where a checkpoint finds them.

Statistics travel as one float64 tensor [3, *shape] of (mean, variance, count), so that ranks exchange them in
one collective: pass `gather`, which returns every rank's tensor, and all ranks keep equal statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.functional.returns import reverse_scan
from rl_lightning.observations import ObsLayout
from rl_lightning.types import Transitions

Gather = Callable[[Tensor], Sequence[Tensor]]


def measure(rows: Tensor, shape: tuple[int, ...] = ()) -> Tensor:
    """Statistics of rows [..., *shape] -> [3, *shape]."""
    flat = rows.detach().double().reshape(-1, *shape)
    if len(flat) == 0:
        return torch.zeros(3, *shape, dtype=torch.float64, device=rows.device)
    variance, mean = torch.var_mean(flat, 0, correction=0)
    return torch.stack((mean, variance, torch.full_like(mean, len(flat))))


def combine(parts: Sequence[Tensor]) -> Tensor:
    """Statistics of all rows behind the parts (Chan's formula), whatever their order or sizes."""
    stacked = torch.stack(tuple(parts))
    mean, variance, count = stacked.unbind(1)
    total = count.sum(0)
    weight = count / total.clamp_min(1.0)
    middle = (weight * mean).sum(0)
    spread = (weight * (variance + (mean - middle).square())).sum(0)
    return torch.stack((middle, spread, total))


class RunningMeanStd(nn.Module):
    """Observations to zero mean and unit variance by everything seen so far; the identity before that.

    Args:
        shape: Shape of one observation.
        clip: Largest absolute value that comes out.
        eps: Variance at or below which a feature counts as constant and is only centred.
    """

    mean: Tensor
    var: Tensor
    count: Tensor
    shift: Tensor
    scale: Tensor

    def __init__(self, shape: tuple[int, ...], clip: float = 10.0, eps: float = 1e-8) -> None:
        super().__init__()
        self.shape, self.clip, self.eps = tuple(shape), clip, eps
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        # single-precision copies for the hot path, made again from the three above whenever they change
        self.register_buffer("shift", torch.zeros(shape), persistent=False)
        self.register_buffer("scale", torch.ones(shape), persistent=False)
        self.register_load_state_dict_post_hook(lambda module, keys: module.refresh())  # type: ignore[no-untyped-call]

    def refresh(self) -> None:
        """Take over mean and var after they were written from outside."""
        self.shift.copy_(self.mean)
        self.scale.copy_(torch.where(self.var > self.eps, (self.var + self.eps).rsqrt(), 1.0))

    def stats(self) -> Tensor:
        return torch.stack((self.mean, self.var, self.count.expand(self.shape)))

    @torch.no_grad()
    def merge(self, parts: Sequence[Tensor]) -> None:
        """Add the rows behind the parts to what was seen; each part counts once."""
        mean, var, count = combine([self.stats(), *parts]).unbind()
        total = count.flatten()[0]
        some = total > 0
        self.mean.copy_(torch.where(some, mean, self.mean))
        self.var.copy_(torch.where(some, var, self.var))
        self.count.copy_(total)
        self.refresh()

    def update(self, rows: Tensor, gather: Gather | None = None) -> None:  # [..., *shape]
        part = measure(rows, self.shape)
        self.merge(gather(part) if gather is not None else [part])

    def forward(self, obs: Tensor) -> Tensor:  # [..., *shape] -> the same, float32
        return ((obs - self.shift) * self.scale).clamp_(-self.clip, self.clip)


class RunningObsNorm(RunningMeanStd):
    """The same of an env's observations: of all numbers, or of the vectors beside pictures, which stay as they are.

    Args:
        layout: Their shape, or their parts (`spec.obs_layout`).
    """

    def __init__(self, layout: tuple[int, ...] | ObsLayout) -> None:
        super().__init__((layout.numbers,) if isinstance(layout, ObsLayout) else layout)
        self.layout = layout if isinstance(layout, ObsLayout) and layout.has_pictures else None

    def update(self, rows: Tensor, gather: Gather | None = None) -> None:  # [..., *O]
        super().update(rows if self.layout is None else self.layout.vectors(rows), gather)

    def forward(self, obs: Any) -> Any:  # rows, or each part by its name
        return super().forward(obs) if self.layout is None else self.layout.on_vectors(super().forward, obs)


def standardised(norm: nn.Module, batch: Transitions, gather: Gather) -> Transitions:
    """Transitions as a running norm lets networks see them; the identity leaves them as they are. Statistics are those
    of what was learned from, and a batch counts before it is learned from, as in SimBa."""
    if not isinstance(norm, RunningMeanStd):
        return batch
    norm.update(batch.obs, gather)
    return batch._replace(obs=norm(batch.obs), next_obs=norm(batch.next_obs))


class RewardNormalizer:
    """Rewards divided by the running standard deviation of the discounted return, one return per env.

    Args:
        gamma: Discount of the return.
        num_envs: Number of envs.
        clip: Largest absolute reward that comes out.
        eps: Added to the variance.
    """

    def __init__(self, gamma: float, num_envs: int, clip: float = 10.0, eps: float = 1e-8) -> None:
        self.gamma, self.clip, self.eps = gamma, clip, eps
        self.returns = torch.zeros(
            num_envs, dtype=torch.float64
        )  # of the running episode, up to the last step
        self.stats = torch.zeros(3, dtype=torch.float64)

    def scale(self, reward: Tensor, done: Tensor, gather: Gather | None = None) -> Tensor:
        """Takes the rollout into the statistics, then scales it by them.  [T, N], [T, N] -> [T, N]"""
        assert reward.shape == done.shape and reward.shape[1:] == self.returns.shape, (
            reward.shape,
            done.shape,
        )
        rewards = reward.detach().to(self.returns)
        onward = self.gamma * (1.0 - done.to(self.returns))
        # R[t] = r[t] + gamma * R[t-1], started anew after the end of an episode
        decay = torch.cat((torch.zeros_like(onward[:1]), onward[:-1]))
        inputs = torch.cat((rewards[:1] + self.returns, rewards[1:]))
        returns = reverse_scan(inputs.flip(0), decay.flip(0)).flip(0)
        self.returns = onward[-1] * returns[-1]
        part = measure(returns)
        self.stats = combine([self.stats, *(gather(part) if gather is not None else [part])])
        return (reward / math.sqrt(self.stats[1].item() + self.eps)).clamp(-self.clip, self.clip)

    def state_dict(self) -> dict[str, Tensor]:
        return {"returns": self.returns.clone(), "stats": self.stats.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.returns = state["returns"].clone()
        self.stats = state["stats"].clone()
