"""How a world model sees observations: torsos, as any other network may be."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symlog
from rl_lightning.nn.dense import EPS, DenseStack
from rl_lightning.nn.init import check_sizes, make_activation
from rl_lightning.nn.torso import FeedForward, as_float, as_shape
from rl_lightning.ranges import PositiveInt


class MLPEncoder(FeedForward):
    """Dense layers over flat observations.

    Args:
        hidden_dims: Width of each layer.
        symlog: Squash observations first (Dreamer v3).
        norm: layer, rms or none.
        activation: Of each layer.
    """

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        hidden_dims: list[PositiveInt] = [64, 64],  # noqa: B006
        symlog: bool = False,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape)
        self.dims, self.squash = len(shape), symlog
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        self.net = DenseStack(math.prod(shape), hidden_dims, None, norm, activation)
        self.out_dim = self.net.out_dim

    def forward(self, obs: Tensor) -> Tensor:
        flat = as_float(obs).flatten(obs.dim() - self.dims)
        return self.net(symlog(flat) if self.squash else flat)


class IdentityEncoder(MLPEncoder):
    """The observation itself, flattened.

    Args:
        symlog: Squash observations first.
    """

    def __init__(self, obs_shape: int | tuple[int, ...], /, symlog: bool = False) -> None:
        super().__init__(obs_shape, [], symlog)


def check_image(obs_shape: tuple[int, ...], layers: int) -> int:
    """The side of the smallest map; images must halve evenly, `layers` times."""
    if len(obs_shape) != 3 or obs_shape[1] != obs_shape[2] or obs_shape[1] % 2**layers:
        side = 2**layers
        raise ConfigError(
            f"{layers} convolutions halve a square image whose side is a multiple of {side}; observations have shape "
            f"{obs_shape}. Resize them (ImagePreprocessing), or use MLPEncoder and MLPDecoder"
        )
    return int(obs_shape[1] // 2**layers)


class ImageNorm(nn.Module):
    """Layer norm over the channels of maps [B, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, maps: Tensor) -> Tensor:
        last = maps.movedim(1, 3)
        return F.layer_norm(last, (len(self.weight),), self.weight, self.bias, EPS).movedim(3, 1)


class ConvEncoder(FeedForward):
    """Convolutions of stride 2, each halving the image.

    Args:
        depth: Channels of the first; each has as many times it as `multipliers` says.
        multipliers: Channels of each convolution, as multiples of `depth`.
        norm: Normalise channels after each: layer or none.
        activation: After each.
    """

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        depth: PositiveInt = 32,
        multipliers: list[int] = [1, 2, 4, 8],  # noqa: B006
        norm: str = "none",
        activation: str = "relu",
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape)
        side = check_image(shape, len(check_sizes("multipliers", multipliers)))
        channels = [shape[0], *(depth * m for m in multipliers)]
        layers: list[nn.Module] = []
        for source, target in pairwise(channels):
            layers.append(nn.Conv2d(source, target, 4, 2, 1))
            layers += [ImageNorm(target)] if norm != "none" else []
            layers.append(make_activation(activation))
        self.net = nn.Sequential(*layers)
        self.out_dim = channels[-1] * side * side

    def forward(self, obs: Tensor) -> Tensor:
        images = as_float(obs.reshape(-1, *obs.shape[-3:])) - 0.5
        return self.net(images).reshape(*obs.shape[:-3], self.out_dim)
