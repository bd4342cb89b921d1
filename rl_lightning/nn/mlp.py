"""Fully connected networks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from rl_lightning.nn.init import INITS, check_choice, check_sizes, initialise, make_activation
from rl_lightning.nn.torso import FeedForward, Network, as_float

# What a linear layer gives is not needed again: these overwrite it.
IN_PLACE: dict[type, Callable[[Tensor], Tensor]] = {nn.Tanh: torch.tanh_, nn.ReLU: torch.relu_}


def linear_stack(in_dim: int, hidden: list[int], activation: str, layer_norm: bool) -> nn.Sequential:
    """Linear, (norm,) activation for each hidden size."""
    layers: list[nn.Module] = []
    for size in hidden:
        layers.append(nn.Linear(in_dim, size))
        if layer_norm:
            layers.append(nn.LayerNorm(size))
        layers.append(make_activation(activation))
        in_dim = size
    return nn.Sequential(*layers)


class MLPNet(FeedForward):
    """Observations of any shape, flattened, through hidden layers."""

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        hidden: list[int],
        activation: str = "tanh",
        layer_norm: bool = False,
        init: str = "orthogonal",
    ) -> None:
        super().__init__()
        self.obs_dims = len(obs_shape)
        in_dim = math.prod(obs_shape)
        stack = linear_stack(in_dim, hidden, activation, layer_norm)
        self.layers = initialise(stack, init)
        # Calling modules costs more than the arithmetic of a few rows. These are the layers' own dicts of weights,
        # so that moving, loading and copying the module is seen here.
        self._plain: list[tuple[dict[str, Any], Callable[[Tensor], Tensor]]] | None = None
        if not layer_norm:
            layers: list[Any] = list(stack)
            pairs = [(layers[i], layers[i + 1]) for i in range(0, len(layers), 2)]
            self._plain = [(layer._parameters, IN_PLACE.get(type(act), act.forward)) for layer, act in pairs]
        self.out_dim = hidden[-1] if hidden else in_dim

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., F]
        obs = as_float(obs)
        if self.obs_dims != 1:
            obs = obs.reshape(*obs.shape[: obs.ndim - self.obs_dims], -1)
        if self._plain is None:
            return self.layers(obs)
        for weights, activation in self._plain:
            obs = activation(linear(obs, weights["weight"], weights["bias"]))
        return obs


class MLP(Network):
    """Fully connected layers.

    Args:
        hidden: Width of each layer; the last is the number of features.
        activation: Non-linearity after each layer (tanh, relu, silu, elu, gelu, ...).
        layer_norm: Normalise each layer's output before its activation.
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    def __init__(
        self,
        hidden: list[int] = [64, 64],  # noqa: B006  (copied, never mutated; None would hide the default in --help)
        activation: str = "tanh",
        layer_norm: bool = False,
        init: str = "orthogonal",
    ) -> None:
        self.hidden = check_sizes("hidden", hidden)
        make_activation(activation)
        self.activation = activation
        self.layer_norm = layer_norm
        self.init = check_choice("init", init, INITS)

    def build(self, obs_shape: tuple[int, ...]) -> MLPNet:
        return MLPNet(obs_shape, self.hidden, self.activation, self.layer_norm, self.init)
