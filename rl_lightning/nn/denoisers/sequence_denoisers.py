"""Denoisers of stretches of actions (H, A): a convolutional U-Net with FiLM, a transformer. See row_denoisers.py."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.denoisers.row_denoisers import Denoiser, SinusoidalTimeEmbedding
from rl_lightning.nn.init import check_sizes
from rl_lightning.ranges import FractionBelowOne


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

    def __init__(self, in_dim: int, out_dim: int, cond_dim: int, kernel_size: int, num_groups: int) -> None:
        super().__init__()

        def layer(width: int) -> nn.Sequential:
            convolution = nn.Conv1d(width, out_dim, kernel_size, padding=kernel_size // 2)
            return nn.Sequential(convolution, nn.GroupNorm(num_groups, out_dim), nn.Mish())

        self.first, self.second = layer(in_dim), layer(out_dim)
        self.film = nn.Sequential(nn.Mish(), nn.Linear(cond_dim, 2 * out_dim))
        self.around = nn.Conv1d(in_dim, out_dim, 1) if in_dim != out_dim else nn.Identity()

    def forward(self, x: Tensor, known: Tensor) -> Tensor:  # [B, I, H], [B, C] -> [B, O, H]
        scale, shift = self.film(known).unsqueeze(-1).chunk(2, 1)
        return self.around(x) + self.second(torch.addcmul(shift, self.first(x), 1.0 + scale))


class UNetDenoiser(Denoiser):
    """The 1-D U-Net of diffusion policies (Chi et al. 2023).

    Args:
        down_dims: Channels of each level; each further level halves the stretch.
        kernel_size: Width of the convolutions; odd.
        num_groups: Groups that are normalised together; must divide all channels.
        time_embed_dim: Features of time.
    """

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        /,
        down_dims: list[int] = [64, 128],  # noqa: B006  (copied, never mutated)
        kernel_size: int = 5,
        num_groups: int = 8,
        time_embed_dim: int = 64,
    ) -> None:
        super().__init__()
        down_dims = check_sizes("down_dims", down_dims)
        if kernel_size < 1 or kernel_size % 2 == 0 or any(width % num_groups for width in down_dims):
            raise ConfigError(
                "UNetDenoiser: kernel_size must be odd, and num_groups must divide all channels"
            )
        length, width = check_event("UNetDenoiser", event)
        if length % 2 ** (len(down_dims) - 1):
            raise ConfigError(
                f"UNetDenoiser halves a stretch {len(down_dims) - 1} times; {length} actions cannot be halved so often"
            )
        self.time = SinusoidalTimeEmbedding(time_embed_dim)
        known = time_embed_dim + cond_dim

        def block(i: int, o: int) -> FilmBlock:
            return FilmBlock(i, o, known, kernel_size, num_groups)

        sizes = [width, *down_dims]
        self.down = nn.ModuleList(nn.ModuleList((block(i, o), block(o, o))) for i, o in pairwise(sizes))
        self.narrow = nn.ModuleList(nn.Conv1d(o, o, 3, 2, 1) for o in down_dims[:-1])
        self.middle = nn.ModuleList(
            (block(down_dims[-1], down_dims[-1]), block(down_dims[-1], down_dims[-1]))
        )
        ups = list(pairwise(reversed(down_dims)))
        self.up = nn.ModuleList(nn.ModuleList((block(2 * i, o), block(o, o))) for i, o in ups)
        self.widen = nn.ModuleList(nn.ConvTranspose1d(o, o, 4, 2, 1) for _, o in ups)
        first = down_dims[0]
        end = nn.Sequential(
            nn.Conv1d(first, first, kernel_size, padding=kernel_size // 2),
            nn.GroupNorm(num_groups, first),
            nn.Mish(),
        )
        self.last = nn.Sequential(end, nn.Conv1d(first, width, 1))

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        rows, time, known = as_batch(x, t, cond)
        known = torch.cat((self.time(time), known), -1)
        h, skips = rows.transpose(-1, -2), []
        for i, level in enumerate(self.down):
            h = self._twice(level, h, known)
            skips.append(h)
            if i < len(self.narrow):
                h = self.narrow[i](h)
        h = self._twice(self.middle, h, known)
        for level, widen in zip(self.up, self.widen, strict=True):
            h = widen(self._twice(level, torch.cat((h, skips.pop()), 1), known))
        return self.last(h).transpose(-1, -2).reshape(x.shape)

    def _twice(self, level: Any, h: Tensor, known: Tensor) -> Tensor:
        first, second = level
        return second(first(h, known), known)


class TransformerDenoiser(Denoiser):
    """The transformer of diffusion policies (Chi et al. 2023).

    Args:
        embed_dim: Width of the tokens; even, and divided by num_heads.
        num_heads: Attention heads.
        num_layers: Layers.
        dropout: Fraction of activations dropped in training.
        causal: An action sees only those before it.
    """

    position: Tensor

    def __init__(
        self,
        event: tuple[int, ...],
        cond_dim: int,
        /,
        embed_dim: int = 128,
        num_heads: int = 4,
        num_layers: int = 4,
        dropout: FractionBelowOne = 0.1,
        causal: bool = True,
    ) -> None:
        super().__init__()
        if embed_dim % num_heads or embed_dim % 2 or num_layers < 1 or not 0.0 <= dropout < 1.0:
            raise ConfigError(
                "TransformerDenoiser: embed_dim must be even and divided by num_heads, num_layers at least 1, dropout "
                "below 1"
            )
        length, action = check_event("TransformerDenoiser", event)
        self.time = SinusoidalTimeEmbedding(embed_dim)
        self.cond = nn.Linear(cond_dim, embed_dim)
        self.enter = nn.Linear(action, embed_dim)
        self.position = nn.Parameter(0.02 * torch.randn(length, embed_dim))
        self.place = nn.Parameter(0.02 * torch.randn(2, embed_dim))
        layer = nn.TransformerDecoderLayer(
            embed_dim, num_heads, 4 * embed_dim, dropout, "gelu", batch_first=True, norm_first=True
        )
        self.decoder = nn.TransformerDecoder(layer, num_layers)
        self.last = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, action))
        mask = nn.Transformer.generate_square_subsequent_mask(length) if causal else None
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor, t: Tensor, cond: Tensor) -> Tensor:
        rows, time, known = as_batch(x, t, cond)
        memory = torch.stack((self.time(time), self.cond(known)), 1) + self.place
        h = self.decoder(self.enter(rows) + self.position, memory, tgt_mask=self.mask)
        return self.last(h).reshape(x.shape)
