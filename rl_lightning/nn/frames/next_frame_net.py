"""The next-frame network (SimPLe, MBARC): down to a small map, the action and latent bits put in, and up again."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.nn.frames.frame_parts import ActionInjector, UpsampleConv, halving, make_norm, make_timing
from rl_lightning.nn.frames.latent_bits import BitsPosterior, BitsPredictor, signs, training_bits


class Features(NamedTuple):
    """What one pass through the trunk gives."""

    mid: Tensor  # [B, M, h, w] the small map, after action and bits
    fin: Tensor  # [B, W, H, W] the full map that frames are read from
    value: Tensor  # [B] of the stack, before the action
    latent_loss: Tensor  # how badly the LSTM told the bits; 0 where none were read


class Down(nn.Module):
    """One halving."""

    def __init__(
        self, channels: int, out: int, size: tuple[int, int], dropout: float, norm: str, timing: bool
    ) -> None:
        super().__init__()
        self.drop, self.timing = nn.Dropout(dropout), make_timing(timing, channels, size)
        self.conv, self.norm = nn.Conv2d(channels, out, 4, 2, 1), make_norm(norm, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(F.relu(self.conv(self.timing(self.drop(x)))))


class Up(nn.Module):
    """One doubling, to the size of its skip."""

    def __init__(
        self, channels: int, out: int, size: tuple[int, int], odd: tuple[int, int], actions: int,
        dropout: float, norm: str, timing: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.drop, self.inject = nn.Dropout(dropout), ActionInjector(actions, channels)
        self.conv = UpsampleConv(channels, out, odd)
        self.norm, self.timing = make_norm(norm, out), make_timing(timing, out, size)

    def forward(self, x: Tensor, skip: Tensor, action: Tensor) -> Tensor:
        x = F.relu(self.conv(self.inject(self.drop(x), action))) + skip
        return self.timing(self.norm(x))


class Middle(nn.Module):
    """Convolutions on the small map; the first replaces, every other adds."""

    def __init__(self, channels: int, hidden_layers: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.convs = nn.ModuleList(nn.Conv2d(channels, channels, 3, 1, 1) for _ in range(hidden_layers))
        self.norms = nn.ModuleList(make_norm(norm, channels) for _ in range(hidden_layers - 1))

    def forward(self, x: Tensor) -> Tensor:
        for k, conv in enumerate(self.convs):
            new = F.relu(conv(self.drop(x)))
            x = new if k == 0 else self.norms[k - 1](x + new)
        return x


class NextFrameNet(nn.Module):
    """From planes and an action to features; see `NextFramePredictor` for the sizes.

    Args:
        planes: Channels of the input.
        target_planes: Channels of a frame that bits are read from.
        size: Height and width.
        actions: Number of actions.
        base_channels: Channels at full size.
        compress_steps: Halvings.
        filter_double_steps: Halvings that double the channels.
        hidden_layers: Convolutions on the small map.
        dropout: Of the halvings and doublings.
        residual_dropout: Of the small map.
        norm: layer or instance.
        bottleneck_bits: Of the latent; 0: none.
        latent_filters: Channels of the two convolutions that bits are read by.
        latent_state_size: Of the LSTM.
        bottleneck_noise: Chance that a bit is turned in training.
        timing_signal: Add where a pixel is to every map.
    """

    def __init__(
        self,
        planes: int,
        target_planes: int,
        size: tuple[int, int],
        actions: int,
        base_channels: int,
        compress_steps: int,
        filter_double_steps: int,
        hidden_layers: int,
        dropout: float,
        residual_dropout: float,
        norm: str,
        bottleneck_bits: int,
        latent_filters: tuple[int, int],
        latent_state_size: int,
        bottleneck_noise: float,
        timing_signal: bool = True,
    ) -> None:
        super().__init__()
        heights, widths = halving(size[0], compress_steps), halving(size[1], compress_steps)
        self.sizes = list(zip(heights, widths, strict=True))
        channels = [base_channels * 2 ** min(k, filter_double_steps) for k in range(compress_steps + 1)]
        check_sizes(self.sizes, norm)
        self.actions, self.bottleneck_noise = actions, bottleneck_noise
        self.embed, self.timing_signal = (
            nn.Conv2d(planes, base_channels, 1),
            make_timing(timing_signal, base_channels, size),
        )
        nn.init.normal_(self.embed.bias, 0.0, 0.01)  # type: ignore[arg-type]
        self.down = nn.ModuleList(
            Down(channels[k], channels[k + 1], self.sizes[k], dropout, norm, timing_signal)
            for k in range(compress_steps)
        )
        self.mid_channels, self.mid_size = channels[-1], self.sizes[-1]
        flat = channels[-1] * math.prod(self.mid_size)
        self.value = nn.Linear(flat, 1)
        self.inject = ActionInjector(actions, channels[-1])
        self.hidden_layers = Middle(channels[-1], hidden_layers, residual_dropout, norm)
        self.up = nn.ModuleList()
        for k in reversed(range(compress_steps)):
            odd = (heights[k] - 2 * heights[k + 1], widths[k] - 2 * widths[k + 1])
            self.up.append(
                Up(channels[k + 1], channels[k], self.sizes[k], odd, actions, dropout, norm, timing_signal)
            )
        self.bottleneck_bits = bottleneck_bits
        if bottleneck_bits:
            self.posterior = BitsPosterior(
                planes + target_planes,
                size,
                actions,
                base_channels,
                latent_filters,
                bottleneck_bits,
                2 * (planes + target_planes),
            )
            self.prior = BitsPredictor(flat, bottleneck_bits, latent_state_size)
            self.use_bits = ActionInjector(bottleneck_bits, channels[-1])

    def forward(
        self, planes: Tensor, action: Tensor, target: Tensor | None, certain: float, use: float,
        generator: torch.Generator | None,
    ) -> Features:  # fmt: skip
        """Features of planes [B, P, H, W] and actions [B].

        `target` is the frame that followed, in training; `certain` is how far the latent's schedules have come (0 to
        1), `use` the chance that bits are used at all in training; outside of it, they are used if it is above 0.
        """
        action_one_hot = F.one_hot(action.long(), self.actions).to(planes.dtype)
        x = self.timing_signal(self.embed(planes))
        skips = []
        for layer in self.down:
            skips.append(x)
            x = layer(x)
        value = self.value(x.flatten(1))[:, 0]
        x = self.inject(x, action_one_hot)
        x, latent_loss = self._with_bits(x, planes, action_one_hot, target, certain, use, generator)
        mid = x
        x = self.hidden_layers(x)
        for layer, skip in zip(self.up, reversed(skips), strict=True):
            x = layer(x, skip, action_one_hot)
        return Features(mid, x, value, latent_loss)

    def _with_bits(
        self, x: Tensor, planes: Tensor, action_one_hot: Tensor, target: Tensor | None, certain: float, use: float,
        generator: torch.Generator | None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        nothing = x.new_zeros(())
        if not self.bottleneck_bits:
            return x, nothing
        flat = x.flatten(1)
        if target is None:
            if use <= 0.0:
                return x, nothing
            return self.use_bits(x, self.prior.sample(flat, generator).to(x.dtype)), nothing
        logits = self.posterior(torch.cat([planes, target], 1), action_one_hot)
        loss = self.prior.loss(flat, signs(logits.detach()))
        bits = training_bits(logits, self.bottleneck_noise, certain)
        if certain > 0.0:  # bits that the LSTM would have told, as later, when nothing can be read
            prior_bits = self.prior.sample(flat).to(bits.dtype)
            bits = torch.where(torch.rand_like(bits) < 0.5 * certain, prior_bits, bits)
        used = torch.rand(len(x), 1, 1, 1, device=x.device) < use
        return torch.where(used, self.use_bits(x, bits), x), loss


def check_sizes(sizes: list[tuple[int, int]], norm: str) -> None:
    """Refuses levels that the frames have no room for."""
    height, width = sizes[-1]
    levels = len(sizes) - 1
    if min(height, width) < 1:
        room = max(1, int(math.log2(min(sizes[0]))))
        raise ConfigError(
            f"network.levels {levels} halves frames of {sizes[0][0]}x{sizes[0][1]} to nothing; at most {room} fit"
        )
    if norm == "instance" and height * width == 1:
        raise ConfigError(
            f"network.norm instance needs more than one pixel after {levels} halvings of "
            f"{sizes[0][0]}x{sizes[0][1]}; use norm: layer, or fewer levels"
        )
