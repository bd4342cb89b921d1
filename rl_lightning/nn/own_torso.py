"""A torso of one array from whatever makes one: a class of ours, any nn.Module, a function."""

from __future__ import annotations

import inspect

from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.factories import made_by, name_of_factory
from rl_lightning.nn.shapes import output_of, shape_of
from rl_lightning.nn.torso import FeedForward, Network, Shape, Torso, as_float


class _OwnTorso(FeedForward):
    """Any module that maps rows of observations to rows of features."""

    def __init__(self, module: nn.Module, obs_shape: tuple[int, ...], name: str) -> None:
        super().__init__()
        self.module, self.obs_shape = module, obs_shape
        self.out_dim = features_of(module, obs_shape, name)

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., F]
        lead = obs.shape[: obs.ndim - len(self.obs_shape)]
        rows = as_float(obs).reshape(-1, *self.obs_shape)
        return self.module(rows).reshape(*lead, self.out_dim)


def torso_of_shape(network: Network, obs_shape: tuple[int, ...], name: str) -> Torso:
    """A fresh torso for observations of one array."""
    return as_torso(
        call(network, obs_shape[0] if len(obs_shape) == 1 else obs_shape, name), network, obs_shape, name
    )


def as_torso(module: object, network: Network, obs_shape: tuple[int, ...], name: str) -> Torso:
    """A torso as it is, any other module as one."""
    if isinstance(module, Torso):
        return module
    who = name_of_factory(network)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{name}: {who} made a {type(module).__name__}, not an nn.Module")
    return _OwnTorso(module, obs_shape, who)


def without_memory(torso: Torso, network: Network, name: str) -> FeedForward:
    if not isinstance(torso, FeedForward):
        raise ConfigError(
            f"{name} must be a network without memory, MLP or CNN; {name_of_factory(network)} remembers (PPO takes "
            "one that does)"
        )
    return torso


def call(network: Network, size: int | Shape, name: str) -> object:
    """What the network's factory makes; what is none, or does not take a size alone, is refused in a line."""
    check_network(network, name)
    try:
        inspect.signature(network).bind(size)
    except TypeError as error:
        raise ConfigError(
            f"{name}: {name_of_factory(network)} is not made of an observation's size alone: {error}"
        ) from None
    except ValueError:
        pass  # no signature to look at
    return made_by(network, name, size)


def check_network(network: object, name: str) -> None:
    if isinstance(network, nn.Module):
        raise ConfigError(
            f"{name} is a made {type(network).__name__}, but several are needed; give what makes it: a class, a "
            "functools.partial of one, or a function of the width of its input"
        )
    if not callable(network):
        raise ConfigError(f"{name} is {network!r:.60}; it must be what makes an nn.Module")


def check_network_or_sizes(
    network: Network | None, sizes: list[int] | None, name: str, sizes_name: str
) -> None:
    """Sizes of hidden layers beside a network are refused, as they would count for nothing."""
    if network is None:
        return
    check_network(network, name)
    if sizes is not None:
        raise ConfigError(
            f"{name} and {sizes_name} are both given; {sizes_name} is for the network that {name} replaces"
        )


def features_of(module: nn.Module, obs_shape: tuple[int, ...], name: str) -> int:
    """Number of features that a module gives for one observation."""
    shape = shape_of(output_of(module, ((1, *obs_shape),), f"network: {name}"))
    if not isinstance(shape, list) or len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
        raise ConfigError(
            f"network: {name} gives {shape} for observations {[1, *obs_shape]}; it must give [1, features]"
        )
    return shape[1]
