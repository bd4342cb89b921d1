"""SimBa (Lee et al. 2025): residual blocks behind layer norm, which grow without harm."""

from __future__ import annotations

import math

from torch import Tensor, nn

from rl_lightning.nn.init import orthogonal_
from rl_lightning.nn.torso import FeedForward, as_float, as_shape
from rl_lightning.ranges import PositiveInt


class SimBaBlock(nn.Module):
    """x + W2 relu(W1 norm(x)), four times as wide inside.  [..., D] -> [..., D]"""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.wide, self.back = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        for layer in (self.wide, self.back):
            nn.init.kaiming_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.back(self.wide(self.norm(x)).relu())


class SimBa(FeedForward):
    """Residual blocks; with `normalize_obs` of the algorithm it is the paper's network.

    Args:
        hidden_dim: Number of features: 128 for actors, 512 for critics in the paper.
        num_blocks: Residual blocks: 1 for actors, 2 for critics in the paper.
    """

    def __init__(
        self, obs_shape: int | tuple[int, ...], /, hidden_dim: int = 128, num_blocks: PositiveInt = 1
    ) -> None:
        super().__init__()
        self.shape = as_shape(obs_shape)
        self.embed = orthogonal_(nn.Linear(math.prod(self.shape), hidden_dim), 1.0)
        self.blocks = nn.Sequential(*(SimBaBlock(hidden_dim) for _ in range(num_blocks)))
        self.norm = nn.LayerNorm(hidden_dim)
        self.out_dim = hidden_dim

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., F]
        lead = obs.shape[: obs.ndim - len(self.shape)]
        return self.norm(self.blocks(self.embed(as_float(obs).reshape(*lead, -1))))
