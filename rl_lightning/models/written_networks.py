"""Networks of an artifact: written down as plain values, and read again."""

from __future__ import annotations

from typing import Any

from rl_lightning.models.described import describe, rebuild, rewritable
from rl_lightning.nn.torso import Network

WrittenNetwork = Network | dict[str, Any] | None


def read_network(network: WrittenNetwork) -> Network | None:
    """What makes a network as it is, or from what `network_args` wrote down."""
    return rebuild(network, "the network", Network) if isinstance(network, dict) else network


def network_args(**networks: Network | None) -> dict[str, Any]:
    """Those that were given and can be written down, by name, as an artifact keeps them."""
    return {
        name: describe(network)
        for name, network in networks.items()
        if network is not None and rewritable(network)
    }
