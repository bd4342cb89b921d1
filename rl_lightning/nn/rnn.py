"""Recurrent networks."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.init import check_choice
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network, Torso, layout_or_shape
from rl_lightning.types import Carry

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


class RNN(Torso):
    """A GRU or LSTM behind an encoder of the observations. The carry is (h,) or (h, c), each [B, H].

    Args:
        cell: Kind of recurrence, "gru" or "lstm".
        hidden_dim: Size of the recurrent state, which is also the number of features.
        obs_encoder: Network that encodes each observation first (MLP, CNN); null: one tanh layer of 64.
    """

    takes_layout = True

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        cell: str = "gru",
        hidden_dim: int = 128,
        obs_encoder: Network | None = None,
    ) -> None:
        super().__init__()
        check_choice("cell", cell, tuple(CELLS))
        if hidden_dim < 1:
            raise ConfigError(f"hidden_dim must be positive, not {hidden_dim}.")
        encoder = obs_encoder or partial(MLP, hidden_dims=[64])
        self.encoder = make_feed_forward(encoder, layout_or_shape(obs_shape), "obs_encoder")
        self.cell: nn.GRU | nn.LSTM = CELLS[cell](self.encoder.out_dim, hidden_dim)
        self.parts = 2 if cell == "lstm" else 1
        self.out_dim = hidden_dim
        for name, parameter in self.cell.named_parameters():
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter, 1.0)
            else:
                nn.init.zeros_(parameter)

    def initial_carry(self, batch: int) -> Carry:
        weight = next(self.cell.parameters())
        return tuple(weight.new_zeros(batch, self.out_dim) for _ in range(self.parts))

    def _run(self, encoded: Tensor, carry: Carry) -> tuple[Tensor, Carry]:  # [T, B, F], rows [B, H]
        state = tuple(part.unsqueeze(0) for part in carry)
        features, last = self.cell(encoded, state if self.parts == 2 else state[0])
        return features, tuple(part.squeeze(0) for part in (last if self.parts == 2 else (last,)))

    def step(self, obs: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        features, carry = self._run(self.encoder(obs).unsqueeze(0), carry)
        return features.squeeze(0), carry

    def unroll(self, obs: Tensor, carry: Carry, is_first: Tensor) -> tuple[Tensor, Carry]:
        encoded = self.encoder(obs)
        keep = (~is_first).to(encoded.dtype).unsqueeze(-1)
        # the fused kernel runs between the steps at which some row starts an episode
        starts = is_first.any(1).nonzero().flatten().tolist()
        cuts = sorted({0, *starts, len(obs)})
        pieces = []
        for begin, end in pairwise(cuts):
            carry = tuple(part * keep[begin] for part in carry)
            features, carry = self._run(encoded[begin:end], carry)
            pieces.append(features)
        return torch.cat(pieces), carry
