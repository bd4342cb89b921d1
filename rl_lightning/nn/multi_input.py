"""Observations of several parts: an encoder for each, and a network on top."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.cnn import network_for_picture
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.own_torso import torso_of_shape, without_memory
from rl_lightning.nn.torso import FeedForward, Network, Shape, as_shape
from rl_lightning.observations import ObsLayout, ObsPart


class Embedding(FeedForward):
    """A row of a table for each discrete value, which arrives as one-hot.

    Args:
        dim: Width of a row.
    """

    def __init__(self, values: int | tuple[int, ...], /, dim: int = 32) -> None:
        super().__init__()
        self.table = nn.Linear(as_shape(values)[0], dim, bias=False)
        nn.init.normal_(self.table.weight)
        self.out_dim = dim

    def forward(self, obs: Tensor) -> Tensor:  # [..., V] -> [..., F]
        return self.table(obs)


def default_encoder(part: ObsPart) -> Network:
    """What encodes a part that nobody names: a CNN, one layer, a table."""
    if part.kind == "picture":
        return network_for_picture(part.shape)
    return Embedding if part.kind == "discrete" else partial(MLP, hidden_dims=[64], activation="relu")


class MultiInput(FeedForward):
    """An encoder for each part of a Dict (or Tuple) observation, and a network on their features side by side.

    Args:
        encoders: Network of a part by its name (`image: NatureCNN`). Others get a CNN (pictures), one layer of 64
            (vectors) or an embedding (discrete values).
        ignore: Parts that are not seen.
        trunk: Network on all features; null: they are the features.
    """

    takes_layout = True

    def __init__(
        self,
        obs_layout: int | Shape,
        /,
        encoders: dict[str, Network] | None = None,
        ignore: list[str] | None = None,
        trunk: Network | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(obs_layout, ObsLayout):
            raise ConfigError(
                "network: MultiInput is for Dict observations; these are one array, which MLP or CNN takes"
            )
        encoders = encoders or {}
        seen = obs_layout.parts_seen("network", encoders, ignore or [])
        self.layout, self.seen = obs_layout, [part.name for part in seen]
        networks = [_encoder(encoders.get(part.name), part) for part in seen]
        # A list: names of parts may hold dots, names of modules may not.
        self.encoders = nn.ModuleList(networks)
        width = sum(network.out_dim for network in networks)
        self.trunk = None
        if trunk is not None:
            self.trunk = without_memory(
                torso_of_shape(trunk, (width,), "network.trunk"), trunk, "network.trunk"
            )
        self.out_dim = width if self.trunk is None else self.trunk.out_dim

    def forward(self, obs: Tensor | dict[str, Tensor]) -> Tensor:  # [..., D], or each part -> [..., F]
        parts = obs if isinstance(obs, dict) else self.layout.split(obs)
        features = [encoder(parts[name]) for name, encoder in zip(self.seen, self.encoders, strict=True)]
        joined = torch.cat(features, -1)
        return joined if self.trunk is None else self.trunk(joined)


def _encoder(network: Network | None, part: ObsPart) -> FeedForward:
    factory, name = network or default_encoder(part), f"network.encoders.{part.name}"
    return without_memory(torso_of_shape(factory, part.shape, name), factory, name)
