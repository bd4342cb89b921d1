"""Pieces of the next-frame network: timing signals, action injection, norms, attention over space."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_TIMESCALE = 1e4
HEADS = 4


def timing_signal(channels: int, height: int, width: int) -> Tensor:
    """Sinusoids of the row in the first half of the channels, of the column in the second.  [1, C, H, W]"""
    scales = channels // 4
    signal = torch.zeros(1, channels, height, width)
    if scales == 0:
        return signal
    rate = torch.exp(-torch.arange(scales) * (math.log(MAX_TIMESCALE) / max(scales - 1, 1)))
    for axis, size in enumerate((height, width)):
        angle = rate[:, None] * torch.arange(size)  # [S, size]
        wave = torch.cat([angle.sin(), angle.cos()])
        wave = wave[:, :, None] if axis == 0 else wave[:, None, :]
        signal[0, 2 * axis * scales : 2 * (axis + 1) * scales] = wave
    return signal


class Timing(nn.Module):
    """Adds where a pixel is to what it holds."""

    signal: Tensor

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        made = timing_signal(channels, height, width).to(memory_format=torch.channels_last)
        self.register_buffer("signal", made, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.signal


class Inject(nn.Module):
    """Scales and shifts every channel by what is decided: x * sigmoid(W1 a) + W2 a."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Linear(width, channels), nn.Linear(width, channels)

    def forward(self, x: Tensor, given: Tensor) -> Tensor:  # [B, C, H, W], [B, A]
        scale, shift = self.scale(given).sigmoid(), self.shift(given)
        return torch.addcmul(shift[:, :, None, None], x, scale[:, :, None, None])


class ChannelNorm(nn.Module):
    """Layer norm over the channels of each position, as in tensor2tensor; free in channels-last memory."""

    def __init__(self, channels: int, affine: bool = True) -> None:
        super().__init__()
        self.channels = channels
        self.weight = nn.Parameter(torch.ones(channels)) if affine else None
        self.bias = nn.Parameter(torch.zeros(channels)) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        rows = F.layer_norm(x.permute(0, 2, 3, 1), (self.channels,), self.weight, self.bias, 1e-6)
        return rows.permute(0, 3, 1, 2)


def make_norm(kind: str, channels: int, affine: bool = True) -> nn.Module:
    """layer: over channels at each position; instance: over space in each channel (the original's)."""
    if kind == "layer":
        return ChannelNorm(channels, affine)
    assert kind == "instance", kind
    return nn.InstanceNorm2d(channels, eps=1e-6, affine=affine)


class MeanAttention(nn.Module):
    """Means over space weighted by a few learned maps, and the plain mean, to `out` features."""

    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.maps = nn.Conv2d(channels, HEADS, 1)
        self.out = nn.Linear((HEADS + 1) * channels, out)

    def forward(self, x: Tensor) -> Tensor:  # [B, C, H, W] -> [B, out]
        weight = self.maps(x).flatten(2).softmax(-1)  # [B, heads, HW], each head over all of space
        flat = x.flatten(2)
        means = torch.cat([weight @ flat.transpose(1, 2), flat.mean(-1)[:, None]], 1)
        return self.out(means.flatten(1))  # type: ignore[no-any-return]


def halving(size: int, levels: int) -> list[int]:
    """Sizes of a side before each halving, and after the last."""
    sizes = [size]
    for _ in range(levels):
        sizes.append(sizes[-1] // 2)
    return sizes
