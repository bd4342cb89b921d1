"""Attention over the last few observations of an episode."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.init import orthogonal_
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network, Torso, layout_or_shape
from rl_lightning.types import Carry

CHUNK = 64  # steps attended at once: dense products, and memory that grows with T and not with its square


class WindowBlock(nn.Module):
    """Pre-norm attention of the newest token over its window, then a position-wise layer."""

    def __init__(self, embed_dim: int, num_heads: int, context_length: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query_norm, self.key_norm, self.mix_norm = (nn.LayerNorm(embed_dim) for _ in range(3))
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key_value = nn.Linear(embed_dim, 2 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        # how much each head listens to an age; they start with different reaches, the first the shortest
        slopes = 2.0 ** -torch.arange(num_heads)
        self.age_bias = nn.Parameter(-slopes.unsqueeze(1) * torch.arange(context_length))
        self.mix = nn.Sequential(
            nn.Linear(embed_dim, 4 * embed_dim), nn.GELU(), nn.Linear(4 * embed_dim, embed_dim)
        )

    def forward(self, token: Tensor, memory: Tensor, visible: Tensor) -> Tensor:
        """token [T, B, D], memory [W-1+T, B, D], visible [B, T, W-1+T] -> [T, B, D]"""
        query = self._by_head(self.query(self.query_norm(token)))  # [B, heads, T, D/heads]
        key, value = (self._by_head(part) for part in self.key_value(self.key_norm(memory)).chunk(2, -1))
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5 + self._bias(len(token), len(memory))
        weights = scores.masked_fill(~visible.unsqueeze(1), float("-inf")).softmax(-1)
        token = token + self.out((weights @ value).permute(2, 0, 1, 3).flatten(2))
        return token + self.mix(self.mix_norm(token))

    def _by_head(self, rows: Tensor) -> Tensor:  # [T, B, D] -> [B, heads, T, D/heads]
        return rows.unflatten(-1, (self.num_heads, -1)).permute(1, 2, 0, 3)

    def _bias(self, steps: int, length: int) -> Tensor:  # -> [heads, T, W-1+T]
        age = ages(steps, length, self.age_bias.device)
        return self.age_bias[:, age.clamp(0, self.age_bias.shape[1] - 1)]


def ages(steps: int, length: int, device: torch.device) -> Tensor:
    """Steps from each row of a memory to each of its last `steps` rows.  -> [T, length]"""
    now = torch.arange(length - steps, length, device=device)
    return now.unsqueeze(1) - torch.arange(length, device=device)


class WindowTransformer(Torso):
    """Attention over the last observations of the episode: each layer refines the newest token by its window.

    Keys and values are made from the encodings alone, not from earlier tokens' outputs: a feature depends on
    exactly the last W observations, a step costs W rows instead of a whole pass, and unrolling T steps
    gives the same numbers as stepping T times.

    The carry is one tensor [B, W-1, D+1]: the previous encodings, oldest first, and a column that is 1 where
    there was one. All zeros is the start of an episode.

    Args:
        context_length: Number of observations seen, the newest included.
        embed_dim: Width of the tokens, which is also the number of features.
        num_heads: Attention heads; must divide embed_dim.
        num_layers: Attention layers.
        obs_encoder: Network that encodes each observation first (MLP, CNN); null: one tanh layer of 64.
    """

    takes_layout = True

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        context_length: int = 16,
        embed_dim: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        obs_encoder: Network | None = None,
    ) -> None:
        super().__init__()
        if context_length < 2:
            raise ConfigError(
                f"context_length must be at least 2, not {context_length}; MLP sees one observation."
            )
        if min(embed_dim, num_heads, num_layers) < 1 or embed_dim % num_heads:
            raise ConfigError(
                "embed_dim, num_heads and num_layers must be positive and num_heads must divide embed_dim: "
                f"{embed_dim}, {num_heads}, {num_layers}."
            )
        encoder = obs_encoder or partial(MLP, hidden_dims=[64])
        self.encoder = make_feed_forward(encoder, layout_or_shape(obs_shape), "obs_encoder")
        self.embed = nn.Linear(self.encoder.out_dim, embed_dim)
        self.blocks = nn.ModuleList(
            WindowBlock(embed_dim, num_heads, context_length) for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.context_length = context_length
        self.out_dim = embed_dim
        orthogonal_(self.embed, 1.0)

    def initial_carry(self, batch: int) -> Carry:
        return (self.embed.weight.new_zeros(batch, self.context_length - 1, self.out_dim + 1),)

    def step(self, obs: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        count = obs.shape[0]  # `len` is a constant to an exporter
        no_start = torch.zeros(1, count, dtype=torch.bool, device=obs.device)
        features, carry = self.unroll(obs.unsqueeze(0), carry, no_start)
        return features.squeeze(0), carry

    def unroll(self, obs: Tensor, carry: Carry, is_first: Tensor) -> tuple[Tensor, Carry]:
        encoded = self.embed(self.encoder(obs))  # [T, B, D]
        past = carry[0].transpose(0, 1)  # [W-1, B, D+1]
        memory = torch.cat((past[..., :-1], encoded))
        # number of the episode that each row of the memory belongs to; -1 where there is none
        episode = is_first.long().cumsum(0)
        before = torch.where(past[..., -1] > 0, 0, -1)
        owner = torch.cat((before, episode))  # [W-1+T, B]
        features = [
            self._attend(encoded[t : t + CHUNK], memory[t : t + CHUNK + self.context_length - 1], owner[t:])
            for t in range(0, len(obs), CHUNK)
        ]
        return torch.cat(features), (self._next_carry(memory, owner, episode[-1]),)

    def _attend(self, token: Tensor, memory: Tensor, owner: Tensor) -> Tensor:
        """token [T, B, D], memory [W-1+T, B, D], owner [at least W-1+T, B] -> [T, B, D]"""
        age = ages(len(token), len(memory), token.device)
        owner = owner[: len(memory)].T  # [B, W-1+T]
        same = owner[:, self.context_length - 1 :].unsqueeze(2) == owner.unsqueeze(1)
        visible = same & (age >= 0) & (age < self.context_length)  # [B, T, W-1+T]
        for block in self.blocks:
            token = block(token, memory, visible)
        return self.norm(token)

    def _next_carry(self, memory: Tensor, owner: Tensor, current: Tensor) -> Tensor:
        keep = self.context_length - 1
        valid = (owner[-keep:] == current).to(memory.dtype).unsqueeze(-1)
        return torch.cat((memory[-keep:] * valid, valid), -1).transpose(0, 1)
