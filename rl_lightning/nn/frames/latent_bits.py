"""The discrete latent of the next-frame model: bits seen in the frame that came, or predicted by an LSTM."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.nn.frames.frame_parts import ActionInjector, MeanAttention, TimingSignal

SYMBOL_BITS = 8  # bits that the LSTM predicts at once
NOISE, NOISE_BOUND = 0.2, 0.4  # of what is squashed to a bit in training
DROPOUT = 0.1  # of the LSTM's inputs and outputs in training


def to_symbols(bits: Tensor) -> Tensor:
    """Signs [B, n] to numbers below 256 [B, n / 8]."""
    power = 2 ** torch.arange(SYMBOL_BITS, device=bits.device)
    return ((bits > 0).view(len(bits), -1, SYMBOL_BITS) * power).sum(-1)


def to_bits(symbols: Tensor) -> Tensor:
    """The way back: numbers [B, n / 8] to signs [B, n]."""
    power = torch.arange(SYMBOL_BITS, device=symbols.device)
    return ((symbols[..., None] >> power) & 1).flatten(1).float() * 2.0 - 1.0


def signs(x: Tensor) -> Tensor:
    return torch.where(x >= 0, 1.0, -1.0)


def _shrinking(size: tuple[int, int]) -> tuple[int, int, int]:
    """Kernel, stride and padding of a convolution that shrinks maps of this size as far as they allow."""
    smallest = min(size)
    return (8, 4, 2) if smallest >= 4 else (4, 2, 1) if smallest >= 2 else (1, 1, 0)


class BitsPosterior(nn.Module):
    """Reads bits out of a stack and the frame that really followed it."""

    def __init__(
        self,
        planes: int,
        size: tuple[int, int],
        actions: int,
        width: int,
        filters: tuple[int, int],
        bottleneck_bits: int,
        attended: int,
    ) -> None:
        super().__init__()
        self.embed, self.timing = nn.Conv2d(planes, width, 1), TimingSignal(width, *size)
        self.inject = ActionInjector(actions, width)
        first = _shrinking(size)
        after = tuple((n + 2 * first[2] - first[0]) // first[1] + 1 for n in size)
        second = _shrinking((after[0], after[1]))
        self.first = nn.Conv2d(width, filters[0], *first)
        self.second = nn.Conv2d(filters[0], filters[1], *second)
        self.attend_first = MeanAttention(filters[0], attended)
        self.attend_second = MeanAttention(filters[1], attended)
        self.out = nn.Linear(2 * attended, bottleneck_bits)

    def forward(self, planes: Tensor, action: Tensor) -> Tensor:  # [B, P, H, W], [B, A] -> [B, bits]
        x = self.inject(self.timing(self.embed(planes)), action)
        x = self.first(x)
        first = self.attend_first(x)
        x = self.second(F.relu(x))
        return self.out(torch.cat([first, self.attend_second(x)], 1))


class BitsPredictor(nn.Module):
    """An LSTM that tells the bits, eight at a time, from the features before them."""

    def __init__(self, features: int, bottleneck_bits: int, width: int) -> None:
        super().__init__()
        self.length = bottleneck_bits // SYMBOL_BITS
        self.start = nn.ModuleList(nn.Linear(features, width) for _ in range(3))  # first input, h, c
        self.embed = nn.Linear(2**SYMBOL_BITS, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.out = nn.Linear(width, 2**SYMBOL_BITS)
        self.drop = nn.Dropout(DROPOUT)

    def _word(self, symbol: Tensor) -> Tensor:
        """A one-hot times the weights, without the one-hot."""
        return F.embedding(symbol, self.embed.weight.t()) + self.embed.bias

    def loss(self, features: Tensor, bits: Tensor) -> Tensor:
        """Cross-entropy of the true symbols, each told after the true ones before it."""
        symbols = to_symbols(bits)
        first, h, c = (layer(features) for layer in self.start)
        words = torch.cat([first[:, None], self._word(symbols[:, :-1])], 1)
        hidden, _ = self.lstm(self.drop(words), (h[None].contiguous(), c[None].contiguous()))
        logits = self.out(self.drop(hidden))
        return F.cross_entropy(logits.flatten(0, 1), symbols.flatten())

    @torch.no_grad()
    def sample(self, features: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Bits drawn one symbol after the other, in full precision.  [B, F] -> [B, bits]"""
        with torch.autocast(features.device.type, enabled=False):
            return self._sampled(features.float(), generator)

    def _sampled(self, features: Tensor, generator: torch.Generator | None) -> Tensor:
        word, h, c = (layer(features) for layer in self.start)
        cell: Any = self.lstm
        weights = (cell.weight_ih_l0, cell.weight_hh_l0, cell.bias_ih_l0, cell.bias_hh_l0)
        symbols = []
        for _ in range(self.length):
            h, c = torch.lstm_cell(word, (h, c), *weights)
            symbol = torch.multinomial(self.out(h).softmax(-1), 1, generator=generator)[:, 0]
            symbols.append(symbol)
            word = self._word(symbol)
        return to_bits(torch.stack(symbols, 1))


def training_bits(logits: Tensor, flip: float, discrete: float) -> Tensor:
    """Bits as training wants them: noisy, some flipped, hard with probability `discrete` and soft otherwise.

    The gradient of a hard bit is that of the soft one it was cut from.
    """
    noise = nn.init.trunc_normal_(torch.empty_like(logits), 0.0, NOISE, -NOISE_BOUND, NOISE_BOUND)
    soft = torch.tanh(logits + noise)
    hard = soft + (signs(soft) - soft).detach()
    hard = hard * torch.where(torch.rand_like(soft) < flip, -1.0, 1.0)
    return torch.where(torch.rand_like(soft) < discrete, hard, soft)
