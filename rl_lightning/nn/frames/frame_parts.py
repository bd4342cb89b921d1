"""Pieces of the next-frame network: timing signals, action injection, norms, attention over space."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

MAX_TIMESCALE = 1e4
HEADS = 4
LARGE_MAP = 1000  # pixels from which a group norm beats one written out


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


class TimingSignal(nn.Module):
    """Adds where a pixel is to what it holds."""

    signal: Tensor

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        signal = timing_signal(channels, height, width).to(memory_format=torch.channels_last)
        self.register_buffer("signal", signal, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.signal.to(x.dtype)  # a half-precision map stays one


def make_timing(there: bool, channels: int, size: tuple[int, int]) -> nn.Module:
    """The signal, or nothing."""
    return TimingSignal(channels, *size) if there else nn.Identity()


class ActionInjector(nn.Module):
    """Scales and shifts every channel by what is decided: x * sigmoid(W1 a) + W2 a."""

    def __init__(self, width: int, channels: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Linear(width, channels), nn.Linear(width, channels)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:  # [B, C, H, W], [B, A]
        scale, shift = self.scale(action).sigmoid(), self.shift(action)
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


class SpaceNorm(nn.InstanceNorm2d):
    """Instance norm that leaves channels-last maps as they are: torch's own copies them there and back."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled():  # torch's is the fastest to go back through
            return super().forward(x)
        if x.shape[-2] * x.shape[-1] >= LARGE_MAP:
            weight, bias = (None if p is None else p.to(x.dtype) for p in (self.weight, self.bias))
            return F.group_norm(x, self.num_features, weight, bias, self.eps)
        centred = x - x.mean((2, 3), keepdim=True)
        scale = (centred.square().mean((2, 3), keepdim=True) + self.eps).rsqrt()
        if self.weight is None:
            return centred.mul_(scale)
        scale = scale * self.weight[:, None, None].to(x.dtype)
        return torch.addcmul(self.bias[:, None, None].to(x.dtype), centred, scale)


class UpsampleConv(nn.ConvTranspose2d):
    """Twice the size by a transposed convolution of 4 x 4 with stride 2.

    Output pixels of one parity see 2 x 2 of the kernel: four plain convolutions, each a quarter of the output. With an
    odd size they take a third of the time of torch's transposed one, and `prepare` lays their kernels out.
    """

    def __init__(self, channels: int, out: int, odd: tuple[int, int]) -> None:
        super().__init__(channels, out, 4, 2, 1, output_padding=odd)
        self.quarters: list[Tensor] = []

    def prepare(self) -> None:
        """For imagining with weights that no longer change, on a CPU."""
        if any(self.output_padding) and self.weight.device.type == "cpu":
            kernel = self.weight.detach().transpose(0, 1).flip(2, 3)
            parts = [kernel[:, :, row::2, column::2] for row in (0, 1) for column in (0, 1)]
            self.quarters = [part.contiguous(memory_format=torch.channels_last) for part in parts]

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        if not self.quarters or torch.is_grad_enabled() or x.device != self.quarters[0].device:
            return super().forward(x, output_size)
        odd = self.output_padding
        high, wide = 2 * x.shape[2] + int(odd[0]), 2 * x.shape[3] + int(odd[1])
        padded = F.pad(x, (1, 1 + int(odd[1]), 1, 1 + int(odd[0])))
        output: Tensor | None = None
        for number, kernel in enumerate(self.quarters):
            row, column = divmod(number, 2)
            rows, columns = (high - row + 1) // 2, (wide - column + 1) // 2
            quarter = F.conv2d(
                padded[:, :, row : row + rows + 1, column : column + columns + 1], kernel, self.bias
            )
            if output is None:
                shape = (len(x), self.out_channels, high, wide)
                output = torch.empty(
                    shape, dtype=quarter.dtype, device=x.device, memory_format=torch.channels_last
                )
            output[:, :, row::2, column::2] = quarter
        assert output is not None
        return output


def make_norm(kind: str, channels: int, affine: bool = True) -> nn.Module:
    """layer: over channels at each position; instance: over space in each channel (the original's)."""
    if kind == "layer":
        return ChannelNorm(channels, affine)
    assert kind == "instance", kind
    return SpaceNorm(channels, eps=1e-6, affine=affine)


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
        return self.out(means.flatten(1))


def halving(size: int, levels: int) -> list[int]:
    """Sizes of a side before each halving, and after the last."""
    sizes = [size]
    for _ in range(levels):
        sizes.append(sizes[-1] // 2)
    return sizes
