"""A flow of actions, and a policy that gets from the same noise to an action at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.models.described import path_of, rewritable
from rl_lightning.models.policies import ObsNormalizer
from rl_lightning.models.written_networks import WrittenNetwork, network_args, read_network
from rl_lightning.nn.heads.critics import with_output
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network


def gelu_layers(hidden: list[int]) -> Network:
    return partial(MLP, hidden_dims=list(hidden), activation="gelu", init="default")


class ActionFlow(nn.Module):
    """The velocity of actions on their way from noise, given an observation.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        network: What turns observation, action and time, side by side, into features.
    """

    def __init__(self, obs_dim: int, action_dim: int, network: Network) -> None:
        super().__init__()
        self.net = with_output(network, obs_dim + action_dim + 1, action_dim)

    def forward(self, obs: Tensor, x: Tensor, t: Tensor) -> Tensor:  # [B, O], [B, A], [B, 1] -> [B, A]
        return self.net(torch.cat((obs, x, t), -1))


class OneStepPolicy(nn.Module):
    """Noise and an observation to an action.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        hidden_dims: Width of each hidden layer.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        network: What turns an observation with noise into features, or that written down; null: GELU layers of
            `hidden_dims`.
    """

    draws, discrete = True, False

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden_dims: list[int],
        normalize_obs: bool = False,
        network: WrittenNetwork = None,
    ) -> None:
        super().__init__()
        own = read_network(network)
        self.init_args: dict[str, Any] = {
            "obs_dim": obs_dim,
            "action_dim": action_dim,
            "hidden_dims": list(hidden_dims),
            "normalize_obs": normalize_obs,
        } | network_args(network=own)
        self.describable = own is None or rewritable(own)
        self.action_dim = action_dim
        self.norm: nn.Module = ObsNormalizer(obs_dim) if normalize_obs else nn.Identity()
        self.net = with_output(own or gelu_layers(hidden_dims), obs_dim + action_dim, action_dim)

    def forward(self, scaled: Tensor, noise: Tensor) -> Tensor:
        """An action that is not yet clipped.  [B, O], [B, A] -> [B, A]"""
        return self.net(torch.cat((scaled, noise), -1))

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        noise = standard_noise((len(obs), self.action_dim), generator, obs)
        return self(self.norm(obs), noise).clamp(-1.0, 1.0)

    def exported(self, prefix: str) -> Exported:
        """How a later stage makes this policy again, its weights lying under `prefix`."""
        return Exported(path_of(type(self)), self.init_args, prefix)
