"""Activations by name, and how weights start."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from torch import nn

from rl_lightning.errors import ConfigError

RELU_GAIN = math.sqrt(2.0)
INITS = ("orthogonal", "default")
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "leaky_relu": nn.LeakyReLU,
    "mish": nn.Mish,
    "relu": partial(nn.ReLU, inplace=True),  # a linear layer does not need its output again
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}


def check_choice(what: str, name: str, choices: tuple[str, ...]) -> str:
    """The name itself, or an error that lists what it may be."""
    if name not in choices:
        raise ConfigError(f"{what} '{name}' is unknown; choose one of {', '.join(sorted(choices))}.")
    return name


def check_sizes(what: str, sizes: list[int]) -> list[int]:
    if any(size < 1 for size in sizes):
        raise ConfigError(f"{what} must be positive numbers, not {sizes}.")
    return list(sizes)


def make_activation(name: str) -> nn.Module:
    return ACTIVATIONS[check_choice("activation", name, tuple(ACTIVATIONS))]()


def orthogonal_(module: nn.Module, gain: float = RELU_GAIN) -> nn.Module:
    """Orthogonal weights and zero biases in every linear and convolution layer; returns the module."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return module


def init_weights(module: nn.Module, init: str) -> nn.Module:
    """Start the hidden layers of `module` as its name says; "default" leaves what torch gave them."""
    check_choice("init", init, INITS)
    return orthogonal_(module) if init == "orthogonal" else module
