"""Networks handed over in Python: a class or function that makes a plain nn.Module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.nn.torso import FeedForward, Network, Torso, as_float

if TYPE_CHECKING:
    NetworkLike = Network | Callable[..., nn.Module]
else:
    NetworkLike = Network  # what a config can say


class OwnTorso(FeedForward):
    """Any module that maps rows of observations to rows of features."""

    def __init__(self, module: nn.Module, obs_shape: tuple[int, ...], name: str) -> None:
        super().__init__()
        self.module, self.obs_shape = module, obs_shape
        self.out_dim = features_of(module, obs_shape, name)

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., F]
        lead = obs.shape[: obs.ndim - len(self.obs_shape)]
        rows = as_float(obs).reshape(-1, *self.obs_shape)
        return self.module(rows).reshape(*lead, self.out_dim)


class _OwnNetwork(Network):
    """Recipe of a torso that a function of the user's makes.

    Args:
        factory: Called with the width of a flat observation, or with the shape of any other; returns a module that
            maps [B, *O] to [B, F].
    """

    def __init__(self, factory: Callable[..., nn.Module]) -> None:
        self.factory = factory

    def build(self, obs_shape: tuple[int, ...]) -> Torso:
        name = getattr(self.factory, "__name__", type(self.factory).__name__)
        network = self.factory(obs_shape[0] if len(obs_shape) == 1 else obs_shape)
        if isinstance(network, Torso):
            return network
        if not isinstance(network, nn.Module):
            raise ConfigError(f"network: {name} made a {type(network).__name__}, not an nn.Module")
        return OwnTorso(network, obs_shape, name)


def as_network(network: NetworkLike | None, name: str = "network") -> Network | None:
    """What an algorithm is given as `network`, or another argument of that kind, as a recipe."""
    value = cast(Any, network)
    if value is None or isinstance(value, Network):
        return value
    if isinstance(value, nn.Module):
        raise ConfigError(
            f"{name} is a made {type(value).__name__}, but several are needed; give what makes it: a class, or "
            "a function of the width of its input"
        )
    if isinstance(value, type) and issubclass(value, Network):
        raise ConfigError(f"{name} is the class {value.__name__}; give one of it: {value.__name__}(...)")
    if not callable(value):
        raise ConfigError(f"{name} is {value!r:.60}; it is a Network, or makes an nn.Module")
    return _OwnNetwork(value)


def network_or_sizes(
    network: NetworkLike | None, sizes: list[int] | None, name: str, sizes_name: str
) -> Network | None:
    """The recipe where one was given; sizes of hidden layers beside it are refused, as they would count for nothing."""
    if network is not None and sizes is not None:
        raise ConfigError(
            f"{name} and {sizes_name} are both given; {sizes_name} is for the network that {name} replaces"
        )
    return as_network(network, name)


def features_of(module: nn.Module, obs_shape: tuple[int, ...], name: str) -> int:
    """Number of features, found by one row of zeros."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()  # one row has no statistics to normalize by
    weight = next(module.parameters(), None)
    row = torch.zeros(1, *obs_shape, device=None if weight is None else weight.device)
    try:
        with torch.no_grad():
            out = module(row)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"network: {name} does not take observations {list(row.shape)}: {line}") from error
    finally:
        for part, training in modes:
            part.training = training
    if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != 1 or out.shape[1] < 1:
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(
            f"network: {name} gives {shape} for observations {list(row.shape)}; it must give [1, features]"
        )
    return int(out.shape[1])
