"""Attention in which a token sees those before it and itself."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.nn.init import make_activation


class CausalBlock(nn.Module):
    """Pre-norm self-attention, then a position-wise layer."""

    def __init__(self, embed_dim: int, num_heads: int, activation: str) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm, self.mix_norm = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.query_key_value = nn.Linear(embed_dim, 3 * embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.mix = nn.Sequential(
            nn.Linear(embed_dim, 4 * embed_dim),
            make_activation(activation),
            nn.Linear(4 * embed_dim, embed_dim),
        )

    def forward(self, tokens: Tensor, visible: Tensor, dropout: float) -> Tensor:
        parts = self.query_key_value(self.attention_norm(tokens)).unflatten(-1, (3, self.num_heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # [B, heads, T, D/heads] each
        heard = F.scaled_dot_product_attention(query, key, value, visible.unsqueeze(1), dropout)
        tokens = tokens + F.dropout(self.out(heard.transpose(1, 2).flatten(2)), dropout)
        return tokens + F.dropout(self.mix(self.mix_norm(tokens)), dropout)


class CausalTransformer(nn.Module):
    """Layers of causal attention over tokens; positions are the caller's.  [B, T, D], [B, T] -> [B, T, D]

    Args:
        embed_dim: Width of the tokens.
        num_heads: Attention heads; must divide embed_dim.
        num_layers: Layers.
        activation: Non-linearity of the position-wise layers.
    """

    def __init__(self, embed_dim: int, num_heads: int, num_layers: int, activation: str = "gelu") -> None:
        super().__init__()
        if min(embed_dim, num_heads, num_layers) < 1 or embed_dim % num_heads:
            raise ConfigError(
                "embed_dim, num_heads and num_layers must be positive and num_heads must divide embed_dim: "
                f"{embed_dim}, {num_heads}, {num_layers}"
            )
        self.blocks = nn.ModuleList(CausalBlock(embed_dim, num_heads, activation) for _ in range(num_layers))
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, tokens: Tensor, valid: Tensor, dropout: float = 0.0) -> Tensor:
        """`valid` says which tokens may be seen; one that may not still sees itself, so that its row is a number.
        `dropout` is the fraction of activations that is left out."""
        steps = tokens.new_ones(tokens.shape[1]).cumsum(0)
        earlier, own = steps.unsqueeze(1) >= steps, steps.unsqueeze(1) == steps
        visible = earlier & (valid.unsqueeze(1) | own)  # [B, T, T]
        for block in self.blocks:
            tokens = block(tokens, visible, dropout)
        return self.norm(tokens)
