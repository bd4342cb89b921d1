"""Fully connected networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rl_lightning.kernels.choice import is_hooked
from rl_lightning.kernels.mlp import Activation, mlp, mlp_twin, pays
from rl_lightning.nn.init import check_sizes, init_weights, make_activation
from rl_lightning.nn.torso import FeedForward, as_float, as_shape
from rl_lightning.ranges import PositiveInt

IN_PLACE: dict[type, Activation] = {nn.Tanh: torch.tanh_, nn.ReLU: torch.relu_}


Stack = tuple[list[Tensor], Activation, bool]


def plain_stack(layers: nn.Module, linear: type[nn.Module]) -> Stack | None:
    """Weights and biases in turns of linear layers, the ReLU or tanh between them, and whether it also comes last.

    None for any other layers, and where somebody waits for one of them to be called. It is looked up anew each time, so
    that a layer which was replaced, moved or loaded is seen.
    """
    params: list[Tensor] = []
    modules, activation, turn = layers._modules.values(), None, True
    for module in modules:
        kind = type(module)
        if turn and kind is linear:
            weight, bias = module._parameters.values()  # type: ignore[union-attr]
            if bias is None:
                return None
            params += (weight, bias)  # type: ignore[arg-type]
        elif turn or (in_place := IN_PLACE.get(kind)) is None or activation not in (None, in_place):
            return None
        else:
            activation = in_place
        turn = not turn
    if activation is None or is_hooked(modules):  # type: ignore[arg-type]
        return None
    return params, activation, turn


def run_stack(x: Tensor, stack: Stack) -> Tensor:
    """Calling modules costs more than the arithmetic of a few rows, so small stacks go around them too."""
    return mlp(x, *stack) if pays(x, *stack[:2]) else mlp_twin(x, *stack)


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


class MLP(FeedForward):
    """Fully connected layers over observations of any shape, flattened.

    Args:
        hidden_dims: Width of each layer; the last is the number of features.
        activation: Non-linearity after each layer (tanh, relu, silu, elu, gelu, ...).
        layer_norm: Normalise each layer's output before its activation.
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        hidden_dims: list[PositiveInt] = [64, 64],  # noqa: B006  (never mutated; None would hide the default in --help)
        activation: str = "tanh",
        layer_norm: bool = False,
        init: str = "orthogonal",
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape)
        self.obs_dims = len(shape)
        in_dim = math.prod(shape)
        stack = linear_stack(in_dim, check_sizes("hidden_dims", hidden_dims), activation, layer_norm)
        self.layers = init_weights(stack, init)
        self.out_dim = hidden_dims[-1] if hidden_dims else in_dim

    def flat(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., I]
        obs = as_float(obs)
        return obs if self.obs_dims == 1 else obs.reshape(*obs.shape[: obs.ndim - self.obs_dims], -1)

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., F]
        obs, stack = self.flat(obs), plain_stack(self.layers, nn.Linear)
        return self.layers(obs) if stack is None else run_stack(obs, stack)


def through_head(torso: nn.Module, head: nn.Linear, obs: Tensor) -> Tensor:
    """head(torso(obs)), as one stack where both are plain layers."""
    if type(torso) is MLP and type(head) is nn.Linear and not is_hooked((torso, head)):
        stack = plain_stack(torso.layers, nn.Linear)
        if stack is not None and stack[2] and head.bias is not None:
            return run_stack(torso.flat(obs), ([*stack[0], head.weight, head.bias], stack[1], False))
    return head(torso(obs))
