"""The network that says where guided samples shall go, with its gradient written out."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.nn.denoisers.row_denoisers import GaussianFourierProjection, joined


class GuideNet(nn.Module):
    """g(noisy action, time, observation), fully connected with SiLU. Leading axes broadcast as a denoiser's do.

    Args:
        action_dim: Width of an action.
        obs_dim: Width of an observation.
        hidden_dims: Width of each hidden layer.
        time_embed_dim: Features of time.
        fourier_scale: Spread of the random frequencies that time is seen through.
    """

    def __init__(
        self,
        action_dim: int,
        obs_dim: int,
        hidden_dims: list[int],
        time_embed_dim: int = 32,
        fourier_scale: float = 30.0,
    ) -> None:
        super().__init__()
        self.time = GaussianFourierProjection(time_embed_dim, fourier_scale)
        self.widths = [action_dim, time_embed_dim + obs_dim]
        self.enter = nn.Linear(sum(self.widths), hidden_dims[0])
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise(hidden_dims))
        self.last = nn.Linear(hidden_dims[-1], 1)

    def _first(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        """What the first layer gives; time and observation are multiplied once for all rows that share them."""
        own, shared = self.enter.weight.split(self.widths, -1)
        known = joined(self.time(t), obs)
        return F.linear(x, own) + F.linear(known, shared, self.enter.bias)

    def forward(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:  # [..., A], [...], [..., O] -> [...]
        h = F.silu(self._first(x, t, obs))
        for layer in self.layers:
            h = F.silu(layer(h))
        return self.last(h).squeeze(-1)

    def gradient(self, x: Tensor, t: Tensor, obs: Tensor) -> Tensor:
        """dg/dx of every row, without autograd: as fast as it gets, and at home in inference mode.  -> [..., A]"""
        h, slopes = _silu_and_slope(self._first(x, t, obs)), []
        for layer in self.layers:
            slopes.append(h[1])
            h = _silu_and_slope(layer(h[0]))
        slope = self.last.weight * h[1]
        for layer, before in zip(reversed(self.layers), reversed(slopes), strict=True):
            slope = (slope @ layer.weight).mul_(before)  # type: ignore[operator]
        return slope @ self.enter.weight[:, : self.widths[0]]


def _silu_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
    """z * gate, and its slope: gate + z * gate * (1 - gate), in as few walks through memory as there are."""
    gate = z.sigmoid()
    value = z * gate
    return value, torch.lerp(value, value.new_ones(()), gate)
