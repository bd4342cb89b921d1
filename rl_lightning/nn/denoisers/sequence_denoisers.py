"""Denoisers of stretches of actions (H, A): a convolutional U-Net with FiLM, and a transformer. See denoisers.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.denoisers.row_denoisers import Denoiser, DenoiserNet, SineTime
from rl_lightning.nn.init import check_sizes


def check_event(who: str, event: tuple[int, ...]) -> tuple[int, int]:
    if len(event) != 2:
        raise ConfigError(
            f"{who} denoises stretches of actions; single ones take MLPDenoiser or ResidualDenoiser"
        )
    return event[0], event[1]


def as_batch(x: Tensor, t: Tensor, cond: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Leading axes made one: rows [B, H, A], times [B], conditions [B, C]."""
    lead = x.shape[:-2]
    return x.flatten(0, -3), t.expand(lead).flatten(), cond.expand(*lead, -1).flatten(0, -2)


class FilmBlock(nn.Module):
    """Two convolutions; time and condition scale and shift what the first gives."""

    def __init__(self, in_dim: int, out_dim: int, cond_dim: int, kernel: int, groups: int) -> None:
        super().__init__()

        def layer(width: int) -> nn.Sequential:
            convolution = nn.Conv1d(width, out_dim, kernel, padding=kernel // 2)
            return nn.Sequential(convolution, nn.GroupNorm(groups, out_dim), nn.Mish())

        self.first, self.second = layer(in_dim), layer(out_dim)
        self.film = nn.Sequential(nn.Mish(), nn.Linear(cond_dim, 2 * out_dim))
        self.around = nn.Conv1d(in_dim, out_dim, 1) if in_dim != out_dim else nn.Identity()

    def forward(self, x: Tensor, known: Tensor) -> Tensor:  # [B, I, H], [B, C] -> [B, O, H]
        scale, shift = self.film(known).unsqueeze(-1).chunk(2, 1)
        return self.around(x) + self.second(torch.addcmul(shift, self.first(x), 1.0 + scale))


class UNetDenoiserNet(DenoiserNet):
    """Halves the stretch between levels, and doubles it again on the way up, with skips."""

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        channels: list[int],
        kernel: int,
        groups: int,
        features: int,
    ) -> None:
        super().__init__()
        length, width = check_event("UNetDenoiser", event)
        if length % 2 ** (len(channels) - 1):
            raise ConfigError(
                f"UNetDenoiser halves a stretch {len(channels) - 1} times; {length} actions cannot be halved so often"
            )
        self.time = SineTime(features)
        known = features + cond_dim

        def block(i: int, o: int) -> FilmBlock:
            return FilmBlock(i, o, known, kernel, groups)

        sizes = [width, *channels]
        self.down = nn.ModuleList(nn.ModuleList((block(i, o), block(o, o))) for i, o in pairwise(sizes))
        self.narrow = nn.ModuleList(nn.Conv1d(o, o, 3, 2, 1) for o in channels[:-1])
        self.middle = nn.ModuleList((block(channels[-1], channels[-1]), block(channels[-1], channels[-1])))
        ups = list(pairwise(reversed(channels)))
        self.up = nn.ModuleList(nn.ModuleList((block(2 * i, o), block(o, o))) for i, o in ups)
        self.widen = nn.ModuleList(nn.ConvTranspose1d(o, o, 4, 2, 1) for _, o in ups)
        first = channels[0]
        end = nn.Sequential(
            nn.Conv1d(first, first, kernel, padding=kernel // 2), nn.GroupNorm(groups, first), nn.Mish()
        )
        self.last = nn.Sequential(end, nn.Conv1d(first, width, 1))

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        rows, time, known = as_batch(x, t, cond)
        known = torch.cat((self.time(time), known), -1)
        h, kept = rows.transpose(-1, -2), []
        for i, level in enumerate(self.down):
            h = self._twice(level, h, known)
            kept.append(h)
            if i < len(self.narrow):
                h = self.narrow[i](h)
        h = self._twice(self.middle, h, known)
        for level, widen in zip(self.up, self.widen, strict=True):
            h = widen(self._twice(level, torch.cat((h, kept.pop()), 1), known))
        return self.last(h).transpose(-1, -2).reshape(x.shape)

    def _twice(self, level: Any, h: Tensor, known: Tensor) -> Tensor:
        first, second = level
        return second(first(h, known), known)


class UNetDenoiser(Denoiser):
    """The 1-D U-Net of diffusion policies (Chi et al. 2023).

    Args:
        channels: Channels of each level; each further level halves the stretch.
        kernel: Width of the convolutions; odd.
        groups: Groups that are normalised together; must divide all channels.
        features: Features of time.
    """

    def __init__(
        self,
        channels: list[int] = [64, 128],  # noqa: B006  (copied, never mutated)
        kernel: int = 5,
        groups: int = 8,
        features: int = 64,
    ) -> None:
        self.channels, self.kernel, self.groups = check_sizes("channels", channels), kernel, groups
        self.features = features
        if kernel < 1 or kernel % 2 == 0 or any(width % groups for width in channels):
            raise ConfigError("UNetDenoiser: kernel must be odd, and groups must divide all channels")

    def build(self, event: tuple[int, ...], cond_dim: int) -> UNetDenoiserNet:
        return UNetDenoiserNet(event, cond_dim, self.channels, self.kernel, self.groups, self.features)


class TransformerDenoiserNet(DenoiserNet):
    """Actions attend to those before them, and to time and condition."""

    position: Tensor

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        width: int,
        heads: int,
        layers: int,
        dropout: float,
        causal: bool,
    ) -> None:
        super().__init__()
        length, action = check_event("TransformerDenoiser", event)
        self.time = SineTime(width)
        self.cond = nn.Linear(cond_dim, width)
        self.enter = nn.Linear(action, width)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.place = nn.Parameter(0.02 * torch.randn(2, width))
        layer = nn.TransformerDecoderLayer(
            width, heads, 4 * width, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, layers)
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, action))
        mask = nn.Transformer.generate_square_subsequent_mask(length) if causal else None
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        rows, time, known = as_batch(x, t, cond)
        memory = torch.stack((self.time(time), self.cond(known)), 1) + self.place
        h = self.decoder(self.enter(rows) + self.position, memory, tgt_mask=self.mask)
        return self.last(h).reshape(x.shape)


class TransformerDenoiser(Denoiser):
    """The transformer of diffusion policies (Chi et al. 2023).

    Args:
        width: Width of the tokens; even, and divided by heads.
        heads: Attention heads.
        layers: Layers.
        dropout: Share of activations dropped in training.
        causal: An action sees only those before it.
    """

    def __init__(
        self, width: int = 128, heads: int = 4, layers: int = 4, dropout: float = 0.1, causal: bool = True
    ) -> None:
        if width % heads or width % 2 or layers < 1 or not 0.0 <= dropout < 1.0:
            raise ConfigError(
                "TransformerDenoiser: width must be even and divided by heads, layers at least 1, dropout below 1"
            )
        self.width, self.heads, self.layers = width, heads, layers
        self.dropout, self.causal = dropout, causal

    def build(self, event: tuple[int, ...], cond_dim: int) -> TransformerDenoiserNet:
        return TransformerDenoiserNet(
            event, cond_dim, self.width, self.heads, self.layers, self.dropout, self.causal
        )
