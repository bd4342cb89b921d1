"""Recurrent cores of latent world models: h' = f(h, z, a).

What hangs on the action alone is projected for a whole sequence before the recurrence (`project`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.nn.dense import BlockLinear, Dense, make_norm
from rl_lightning.nn.init import make_activation

Weights = tuple[Tensor, ...]


class Core(nn.Module):
    """One step of the deterministic state."""

    deter: int

    def project(self, action: Tensor) -> Tensor:  # [..., A] -> [..., X]
        """What the action adds, for as many steps as are known."""
        raise NotImplementedError

    def weights(self) -> Weights:
        """What a step needs of the parameters, prepared once for an unroll."""
        return ()

    def step(self, h: Tensor, z: Tensor, action_part: Tensor, weights: Weights) -> Tensor:
        raise NotImplementedError


# Makes the core of a latent of this width and of actions of that one.
CoreFactory = Callable[[int, int], Core]


class _GRU(Core):
    """Dense layer of (z, a), then a GRU; with a norm the gates are Hafner's: one norm, update bias -1."""

    def __init__(
        self,
        stoch_dim: int,
        action_dim: int,
        deter: int,
        hidden_dim: int,
        norm: str,
        activation: str,
        gate_norm: str,
    ) -> None:
        super().__init__()
        self.deter, self.plain = deter, gate_norm == "none"
        self.inner = Dense([stoch_dim, action_dim], hidden_dim, norm, activation)
        self.gates = nn.Linear(hidden_dim + deter, 3 * deter, bias=self.plain)
        nn.init.xavier_uniform_(self.gates.weight)
        self.norm = make_norm(gate_norm, 3 * deter)
        if self.plain:
            nn.init.zeros_(self.gates.bias)

    def project(self, action: Tensor) -> Tensor:
        return F.linear(action, self.inner.parts()[1], self.inner.bias)

    def weights(self) -> Weights:
        by_x, by_h = self.gates.weight.split((self.gates.in_features - self.deter, self.deter), 1)
        return self.inner.parts()[0].t(), by_x.t(), by_h.t(), self.gates.weight.t()

    def step(self, h: Tensor, z: Tensor, action_part: Tensor, weights: Weights) -> Tensor:
        by_z, by_x, by_h, by_both = weights
        x = self.inner.finish(torch.addmm(action_part, z, by_z))
        if self.plain:
            from_x, from_h = torch.addmm(self.gates.bias, x, by_x), h @ by_h
            size = 2 * self.deter
            reset, update = torch.sigmoid(from_x[:, :size] + from_h[:, :size]).chunk(2, -1)
            candidate = torch.tanh(torch.addcmul(from_x[:, size:], reset, from_h[:, size:]))
        else:
            reset, candidate, update = self.norm(torch.cat((x, h), 1) @ by_both).chunk(3, -1)
            candidate = torch.tanh(torch.sigmoid(reset) * candidate)
            update = torch.sigmoid(update - 1.0)
        return torch.lerp(h, candidate.to(h.dtype), update.to(h.dtype))  # the state stays in full precision


class GRUCore(_GRU):
    """A plain GRU behind one dense layer (PlaNet, Dreamer v1).

    Args:
        deter: Width of the deterministic state.
        hidden_dim: Width of the layer before it.
        activation: Of that layer.
    """

    def __init__(
        self,
        stoch_dim: int,
        action_dim: int,
        /,
        deter: int = 200,
        hidden_dim: int = 200,
        activation: str = "elu",
    ) -> None:
        super().__init__(stoch_dim, action_dim, deter, hidden_dim, "none", activation, gate_norm="none")


class NormGRUCore(_GRU):
    """A GRU whose gates are normalised together (Dreamer v2, and v3 as first published).

    Args:
        deter: Width of the deterministic state.
        hidden_dim: Width of the layer before it.
        norm: Of that layer: layer, rms or none.
        activation: Of that layer.
    """

    def __init__(
        self,
        stoch_dim: int,
        action_dim: int,
        /,
        deter: int = 512,
        hidden_dim: int = 512,
        norm: str = "layer",
        activation: str = "silu",
    ) -> None:
        super().__init__(stoch_dim, action_dim, deter, hidden_dim, norm, activation, gate_norm="layer")


class BlockGRUCore(Core):
    """A block-diagonal GRU (Dreamer v3 as it is now): wide states at a fraction of the weights.

    State, latent and action go through a layer each, then block-diagonal layers, then gates.

    Args:
        deter: Width of the deterministic state, a multiple of `blocks`.
        hidden_dim: Width of the layers that see state, latent and action.
        blocks: Groups of the state that see each other only through those layers.
        num_layers: Block-diagonal layers before the gates.
        norm: Of all layers: layer, rms or none.
        activation: Of all layers.
    """

    def __init__(
        self,
        stoch_dim: int,
        action_dim: int,
        /,
        deter: int = 512,
        hidden_dim: int = 64,
        blocks: int = 8,
        num_layers: int = 1,
        norm: str = "rms",
        activation: str = "silu",
    ) -> None:
        super().__init__()
        if deter % blocks:
            raise ConfigError(f"BlockGRUCore.deter is {deter}; it must be a multiple of blocks ({blocks})")
        self.deter, self.blocks = deter, blocks
        self.from_state = Dense([deter], hidden_dim, norm, activation)
        self.from_latent = Dense([stoch_dim], hidden_dim, norm, activation)
        self.from_action = Dense([action_dim], hidden_dim, norm, activation)
        # The first block layer sees its own group of the state and all three layers: the second part is one full layer.
        self.shared = nn.Linear(3 * hidden_dim, deter, bias=norm == "none")
        nn.init.xavier_uniform_(self.shared.weight)
        if self.shared.bias is not None:
            nn.init.zeros_(self.shared.bias)
        self.layers = nn.ModuleList(
            BlockLinear(deter, deter, blocks, bias=norm == "none" and i > 0) for i in range(num_layers)
        )
        self.norms = nn.ModuleList(make_norm(norm, deter) for _ in range(num_layers))
        self.activation = make_activation(activation)
        self.gates = BlockLinear(deter, 3 * deter, blocks)

    def project(self, action: Tensor) -> Tensor:
        action = action / action.detach().abs().clamp(min=1.0)
        weight = self.shared.weight.chunk(3, 1)[2]
        return F.linear(self.from_action(action), weight, self.shared.bias)

    def weights(self) -> Weights:
        return (self.shared.weight[:, : -(self.shared.in_features // 3)].t(),)

    def step(self, h: Tensor, z: Tensor, action_part: Tensor, weights: Weights) -> Tensor:
        both = torch.cat((self.from_state(h), self.from_latent(z)), 1)
        shared = torch.addmm(action_part, both, weights[0])
        x = h
        for k, (layer, norm) in enumerate(zip(self.layers, self.norms, strict=True)):
            x = layer(x) + shared if k == 0 else layer(x)
            x = self.activation(norm(x))
        grouped = self.gates(x).unflatten(-1, (self.blocks, 3, -1))
        reset, candidate, update = (part.flatten(1) for part in grouped.unbind(2))
        candidate = torch.tanh(torch.sigmoid(reset) * candidate)
        return torch.lerp(h, candidate.to(h.dtype), torch.sigmoid(update - 1.0).to(h.dtype))
