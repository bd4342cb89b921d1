"""The torso that fits an env's observations: of one array, or of the parts of a Dict."""

from __future__ import annotations

from rl_lightning.factories import class_of
from rl_lightning.nn.cnn import network_for_picture
from rl_lightning.nn.multi_input import MultiInput
from rl_lightning.nn.own_torso import as_torso, call, check_network, torso_of_shape, without_memory
from rl_lightning.nn.torso import FeedForward, Network, Shape, Torso
from rl_lightning.observations import ObsLayout
from rl_lightning.types import EnvSpec


def make_torso(network: Network, obs: Shape, name: str = "network") -> Torso:
    """A fresh torso for such observations. Where some parts of them are pictures, a network that is not made of parts
    stands on top of an encoder for each.

    Args:
        network: What makes it.
        obs: Shape of one observation, or its parts (`spec.obs_layout`).
        name: The argument that it was given as, for errors.
    """
    if not isinstance(obs, ObsLayout):
        return torso_of_shape(network, obs, name)
    kind = class_of(network)
    if kind is not None and issubclass(kind, Torso) and kind.takes_layout:
        return as_torso(call(network, obs, name), network, (obs.width,), name)
    if not obs.has_pictures:
        return torso_of_shape(network, (obs.width,), name)
    check_network(network, name)
    return MultiInput(obs, trunk=network)


def make_feed_forward(network: Network, obs: Shape, name: str = "network") -> FeedForward:
    """A torso for rules that learn from single steps; a network that remembers is refused."""
    return without_memory(make_torso(network, obs, name), network, name)


def network_of_pictures(spec: EnvSpec) -> Network | None:
    """What sees an env's pictures where nobody says; None where it shows none."""
    return network_for_picture(spec.obs_shape) if spec.is_pixels else None
