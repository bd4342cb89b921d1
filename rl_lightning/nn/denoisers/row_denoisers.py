"""Networks that find the noise in a row, given the time and a condition. Fully connected ones; sequences elsewhere.

`net(x, t, cond)`: x [..., *E], t and cond [..., C] with leading axes that broadcast to those of x. A sampler asks about
many candidates of one condition at one time: t is then one number and cond one row for all of them, and what depends on
those alone is computed once for all candidates.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.factories import make, name_of_factory
from rl_lightning.nn.init import check_sizes, make_activation
from rl_lightning.nn.shapes import output_of, shape_of
from rl_lightning.ranges import PositiveInt


class Denoiser(nn.Module, ABC):
    """Noisy rows to the noise in them.

    It is made of a row's shape, (A,) for one action and (H, A) for H of them, and of the width of the condition.
    """

    @abstractmethod
    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        """[..., *E], [...], [..., C] -> [..., *E]"""


# Makes a denoiser of rows of a shape, given a condition of a width; any nn.Module with this forward will do.
DenoiserFactory = Callable[[tuple[int, ...], int], nn.Module]


def make_denoiser(denoiser: DenoiserFactory, event: tuple[int, ...], cond_dim: int) -> nn.Module:
    """A fresh denoiser; one that gives rows of another shape is refused."""
    net: nn.Module = make(denoiser, nn.Module, "denoiser", event, cond_dim)
    if not isinstance(net, Denoiser):
        who = f"denoiser: {name_of_factory(denoiser)}"
        shape = shape_of(output_of(net, ((1, *event), (1,), (1, cond_dim)), who))
        if shape != [1, *event]:
            raise ConfigError(
                f"{who} gives {shape} for rows {[1, *event]}; the noise in them has their shape"
            )
    return net


def to_bfloat16(net: nn.Module) -> nn.Module:
    """A copy with its weights in bfloat16; frequencies and other constants stay as they are."""
    reduced = copy.deepcopy(net)
    for module in reduced.modules():
        for name, weight in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(weight.detach().to(torch.bfloat16), weight.requires_grad))
    return reduced


def joined(first: Tensor, second: Tensor) -> Tensor:
    """Two conditions side by side, their leading axes broadcast.  [..., C], [..., D] -> [..., C + D]

    The shape is asked of tensors: `torch.broadcast_shapes` would fix the number of rows in an exported graph.
    """
    lead = torch.broadcast_tensors(first[..., :1], second[..., :1])[0].shape[:-1]
    return torch.cat((first.expand(*lead, -1), second.expand(*lead, -1)), -1)


class GaussianFourierProjection(nn.Module):
    """Time as waves of random, fixed frequencies.  [...] -> [..., width]"""

    frequencies: Tensor

    def __init__(self, width: int = 32, fourier_scale: float = 30.0) -> None:
        super().__init__()
        self.register_buffer("frequencies", fourier_scale * torch.randn(width // 2))
        self.linear = nn.Linear(width, width)

    def forward(self, t: Tensor) -> Tensor:
        angle = 2.0 * math.pi * t.unsqueeze(-1) * self.frequencies
        waves = torch.cat((angle.sin(), angle.cos()), -1)  # in full precision, whatever the weights have
        return self.linear(waves.to(self.linear.weight.dtype))


class SinusoidalTimeEmbedding(nn.Module):
    """Time as waves of fixed frequencies, then two layers.  [...] -> [..., width]"""

    frequencies: Tensor

    def __init__(self, width: int = 64, longest: float = 10_000.0, scale: float = 100.0) -> None:
        super().__init__()
        powers = torch.arange(width // 2) / max(width // 2 - 1, 1)
        self.register_buffer("frequencies", scale * longest**-powers, persistent=False)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.Mish(), nn.Linear(4 * width, width))

    def forward(self, t: Tensor) -> Tensor:
        angle = t.unsqueeze(-1) * self.frequencies
        waves = torch.cat((angle.sin(), angle.cos()), -1)
        return self.layers(waves.to(next(self.layers.parameters()).dtype))


class ResidualBlock(nn.Module):
    """silu(W x) + shift, then silu(W' .), plus W'' x or x itself. Both products of x are one."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.out_dim, self.widens = out_dim, in_dim != out_dim
        self.enter = nn.Linear(in_dim, 2 * out_dim if self.widens else out_dim)
        self.mix = nn.Linear(out_dim, out_dim)

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        entered = self.enter(x)
        main, around = entered.split(self.out_dim, -1) if self.widens else (entered, x)
        if torch.is_grad_enabled():
            return around + F.silu(self.mix(F.silu(main) + shift))
        inner = F.silu(main, inplace=True).add_(shift)  # nobody needs what went in again
        return F.silu(self.mix(inner), inplace=True).add_(around)


class ResidualDenoiser(Denoiser):
    """The residual network with skips of Diffusion-DICE (and of QGPO before it); no normalisation, no dropout.

    Args:
        down_dims: Widths on the way down; the way up mirrors them.
        embed_dim: Width of the embedding of time and condition.
        time_embed_dim: Features of time, and of the condition, before that.
        fourier_scale: Spread of the random frequencies that time is seen through.
    """

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        /,
        down_dims: list[int] = [512, 256, 128],  # noqa: B006  (copied, never mutated)
        embed_dim: int = 128,
        time_embed_dim: int = 32,
        fourier_scale: float = 30.0,
    ) -> None:
        super().__init__()
        check_sizes("embed and features", [embed_dim, time_embed_dim])
        down_dims = check_sizes("down_dims", down_dims)
        self.event, dim = event, math.prod(event)
        self.time = GaussianFourierProjection(time_embed_dim, fourier_scale)
        self.cond = nn.Linear(cond_dim, time_embed_dim)
        self.embed = nn.Sequential(
            nn.Linear(2 * time_embed_dim, embed_dim), nn.SiLU(), nn.Linear(embed_dim, embed_dim)
        )
        down = [ResidualBlock(i, o) for i, o in zip([dim, *down_dims[:-1]], down_dims, strict=True)]
        middle = ResidualBlock(down_dims[-1], down_dims[-1])
        ups, width = [], down_dims[-1]
        for skip, out in zip(down_dims[:0:-1], down_dims[-2::-1], strict=True):
            ups.append(ResidualBlock(skip + width, out))
            width = out
        self.down, self.middle, self.up = nn.ModuleList(down), middle, nn.ModuleList(ups)
        self.sizes = [*down_dims, down_dims[-1], *down_dims[-2::-1]]
        self.shift = nn.Linear(embed_dim, sum(self.sizes))  # of all blocks at once
        self.last = nn.Linear(2 * down_dims[0], dim)

    def shifts(self, t: Tensor, cond: Tensor) -> list[Tensor]:
        """What time and condition add to every block."""
        both = joined(F.silu(self.cond(cond)), self.time(t))
        return list(self.shift(F.silu(self.embed(both))).split(self.sizes, -1))

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        shifts = self.shifts(t, cond)
        h = x.flatten(x.dim() - len(self.event))
        skips: list[Tensor] = []
        for block in self.down:
            h = block(h, shifts[len(skips)])
            skips.append(h)
        h = self.middle(h, shifts[len(skips)])
        for i, block in enumerate(self.up):
            h = block(torch.cat((skips.pop(), h), -1), shifts[len(self.down) + 1 + i])
        skip, own = self.last.weight.chunk(2, 1)  # two small products cost less than copying wide rows
        return (F.linear(skips.pop(), skip, self.last.bias) + F.linear(h, own)).view(x.shape)


class MLPDenoiser(Denoiser):
    """Fully connected layers over the row, its time and its condition.

    Args:
        hidden_dims: Width of each layer.
        time_embed_dim: Features of time.
        activation: Non-linearity after each layer.
    """

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        /,
        hidden_dims: list[PositiveInt] = [256, 256, 256],  # noqa: B006  (copied, never mutated)
        time_embed_dim: int = 64,
        activation: str = "mish",
    ) -> None:
        super().__init__()
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        self.event, dim = event, math.prod(event)
        self.widths = [dim, cond_dim + time_embed_dim]
        self.time = SinusoidalTimeEmbedding(time_embed_dim)
        self.enter = nn.Linear(sum(self.widths), hidden_dims[0])
        layers: list[nn.Module] = [make_activation(activation)]
        for i, o in pairwise(hidden_dims):
            layers += [nn.Linear(i, o), make_activation(activation)]
        self.layers = nn.Sequential(*layers, nn.Linear(hidden_dims[-1], dim))

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        known = joined(cond, self.time(t))
        own, shared = self.enter.weight.split(self.widths, -1)
        rows = x.flatten(x.dim() - len(self.event))
        first = F.linear(rows, own) + F.linear(known, shared, self.enter.bias)
        return self.layers(first).view(x.shape)
