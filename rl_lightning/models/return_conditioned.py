"""Actions by what return is still to come, from the last steps of an episode."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.models.policies import ObsNormalizer
from rl_lightning.nn.torsos.causal_transformer import CausalTransformer


class DecisionTransformerNet(nn.Module):
    """Steps as three tokens each (return-to-go, observation, action); an action is read off its observation's token.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action, one-hot where actions are discrete.
        transformer: Attention over the tokens.
        embed_dim: Width of the tokens.
        max_timestep: Steps of an episode that have an embedding of their own.
        squash: Bound actions by tanh.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        transformer: CausalTransformer,
        embed_dim: int,
        max_timestep: int,
        squash: bool,
    ) -> None:
        super().__init__()
        self.norm = ObsNormalizer(obs_dim)
        self.action_dim, self.squash = action_dim, squash
        self.embed_return = nn.Linear(1, embed_dim)
        self.embed_obs = nn.Linear(obs_dim, embed_dim)
        self.embed_action = nn.Linear(action_dim, embed_dim)
        self.embed_timestep = nn.Embedding(max_timestep, embed_dim)
        self.enter = nn.LayerNorm(embed_dim)
        self.transformer = transformer
        self.head = nn.Linear(embed_dim, action_dim)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(
        self,
        obs: Tensor,
        action: Tensor,
        return_to_go: Tensor,
        timestep: Tensor,
        valid: Tensor,
        dropout: float = 0.0,
    ) -> Tensor:
        """[B, K, O], [B, K, A], [B, K] scaled, [B, K], [B, K] -> [B, K, A], the action of each step, which it does not
        see."""
        time = self.embed_timestep(timestep)
        parts = (
            self.embed_return(return_to_go.unsqueeze(-1)),
            self.embed_obs(self.norm(obs)),
            self.embed_action(action),
        )
        tokens = torch.stack([part + time for part in parts], 2).flatten(1, 2)  # [B, 3 K, D]
        known = torch.stack([valid] * 3, 2).flatten(1, 2)
        heard = self.transformer(F.dropout(self.enter(tokens), dropout), known, dropout)
        chosen = self.head(heard.unflatten(1, (-1, 3))[:, :, 1])
        return torch.tanh(chosen) if self.squash else chosen
