"""A torso from whatever makes one: a class of ours, any nn.Module, a function."""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from rl_lightning.errors import ConfigError
from rl_lightning.factories import name_of_factory
from rl_lightning.nn.torso import FeedForward, Network, Torso, as_float


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


def make_torso(network: Network, obs_shape: tuple[int, ...], name: str = "network") -> Torso:
    """A fresh torso for observations of this shape.

    Args:
        network: What makes it.
        obs_shape: Shape of one observation.
        name: The argument that it was given as, for errors.
    """
    module = call(network, obs_shape[0] if len(obs_shape) == 1 else obs_shape, name)
    if isinstance(module, Torso):
        return module
    who = name_of_factory(network)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"{name}: {who} made a {type(module).__name__}, not an nn.Module")
    return _OwnTorso(module, obs_shape, who)


def make_feed_forward(network: Network, obs_shape: tuple[int, ...], name: str = "network") -> FeedForward:
    """A torso for rules that learn from single steps; a network that remembers is refused."""
    torso = make_torso(network, obs_shape, name)
    if not isinstance(torso, FeedForward):
        who = name_of_factory(network)
        raise ConfigError(
            f"{name} must be a network without memory, MLP or CNN; {who} remembers (PPO takes one that does)"
        )
    return torso


def call(network: Network, size: int | tuple[int, ...], name: str) -> object:
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
    return network(size)


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
    """Number of features, found by one row: on the meta device where the module can, without numbers or memory."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()  # one row has no statistics to normalize by
    try:
        out = _on_meta(module, obs_shape)
        out = _on_zeros(module, obs_shape, name) if out is None else out
    finally:
        for part, training in modes:
            part.training = training
    if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != 1 or out.shape[1] < 1:
        shape = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(
            f"network: {name} gives {shape} for observations {[1, *obs_shape]}; it must give [1, features]"
        )
    return int(out.shape[1])


def _on_meta(module: nn.Module, obs_shape: tuple[int, ...]) -> object:
    """What the module gives for one row of a shape alone; None where it cannot say."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    if any(is_lazy(tensor) for tensor in tensors.values()):
        return None  # the row of zeros is what makes its weights
    shapes = {key: tensor.to("meta") for key, tensor in tensors.items()}
    try:
        with torch.device("meta"), torch.no_grad():
            return torch.func.functional_call(module, shapes, (torch.zeros(1, *obs_shape),))
    except Exception:  # it looks at numbers, or does not fit: zeros tell which
        return None


def _on_zeros(module: nn.Module, obs_shape: tuple[int, ...], name: str) -> object:
    weight = next(module.parameters(), None)
    row = torch.zeros(1, *obs_shape, device=None if weight is None else weight.device)
    try:
        with torch.no_grad():
            return module(row)
    except Exception as error:
        line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"network: {name} does not take observations {list(row.shape)}: {line}") from error
