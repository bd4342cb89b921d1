"""Policies of flat observations with any memoryless network, as DQN, PPO and discrete SAC train them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Excerpt, Exported
from rl_lightning.models.described import describe, rebuild, rewritable
from rl_lightning.models.normalizers import RunningMeanStd
from rl_lightning.nn.heads.actors import PolicyHead, make_policy_head
from rl_lightning.nn.heads.critics import DiscreteQNet, QuantileQNet
from rl_lightning.nn.make_torso import make_torso
from rl_lightning.nn.torso import FeedForward, Network
from rl_lightning.types import EnvSpec


def describable(network: Network, torso: nn.Module, spec: EnvSpec) -> bool:
    """Whether a later stage can make this policy again: a vector seen, every action legal, nothing remembered."""
    plain = (
        len(spec.obs_shape) == 1
        and not spec.is_bytes
        and spec.action_kind != "multi_discrete"
        and not spec.action_mask
    )
    return plain and isinstance(torso, FeedForward) and rewritable(network)


class GreedyQPolicy(DiscreteQNet):
    """The action of the highest value.

    Args:
        obs_dim: Width of an observation.
        action_dim: Number of actions.
        network: What makes the torso, written down.
        dueling: Value and advantages as two streams.
    """

    draws, discrete = False, True

    def __init__(self, obs_dim: int, action_dim: int, network: dict[str, Any], dueling: bool = False) -> None:
        torso = make_torso(rebuild(network, "the network", Network), (obs_dim,))
        super().__init__(torso, action_dim, dueling)
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """The greedy action: exploring by chance belongs to training.  [B, O] -> [B]"""
        return self(obs).argmax(-1)

    @classmethod
    def export_spec(cls, spec: EnvSpec, network: Network, dueling: bool, prefix: str) -> Exported:
        sizes = {"obs_dim": spec.obs_shape[0], "action_dim": spec.action_sizes[0]}
        args = {**sizes, "network": describe(network), "dueling": dueling}
        return Exported(f"{cls.__module__}.{cls.__qualname__}", args, prefix)


class GreedyQuantilePolicy(QuantileQNet):
    """The action of the highest mean over its quantiles.

    Args:
        obs_dim: Width of an observation.
        action_dim: Number of actions.
        network: What makes the torso, written down.
        num_quantiles: Of each action.
    """

    draws, discrete = False, True

    def __init__(self, obs_dim: int, action_dim: int, network: dict[str, Any], num_quantiles: int) -> None:
        torso = make_torso(rebuild(network, "the network", Network), (obs_dim,))
        super().__init__(torso, action_dim, num_quantiles)
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """The greedy action.  [B, O] -> [B]"""
        return self(obs).argmax(-1)

    @classmethod
    def export_spec(cls, spec: EnvSpec, network: Network, num_quantiles: int, prefix: str) -> Exported:
        sizes = {"obs_dim": spec.obs_shape[0], "action_dim": spec.action_sizes[0]}
        args = {**sizes, "network": describe(network), "num_quantiles": num_quantiles}
        return Exported(f"{cls.__module__}.{cls.__qualname__}", args, prefix)


class HeadPolicy(Excerpt):
    """A distribution of actions on top of a network, with the running normaliser that it was trained behind.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of a continuous action, or the number of discrete ones.
        network: What makes the torso, written down.
        discrete: Whether actions are discrete.
        normalize_obs: Observations are standardised by statistics that are part of the model.
        draws: Actions are drawn in evaluation too.
        temperature: Of discrete actions that are drawn.
    """

    policy: PolicyHead

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        network: dict[str, Any],
        discrete: bool,
        normalize_obs: bool = False,
        draws: bool = False,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}
        self.discrete, self.draws, self.temperature = discrete, draws, temperature
        if discrete:
            spec = EnvSpec("", (obs_dim,), action_kind="discrete", action_sizes=(action_dim,))
        else:
            spec = EnvSpec("", (obs_dim,), action_shape=(action_dim,))
        self.norm: nn.Module = RunningMeanStd((obs_dim,)) if normalize_obs else nn.Identity()
        self.torso = make_torso(rebuild(network, "the network", Network), (obs_dim,))
        self.policy = make_policy_head(spec, self.torso.out_dim)

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """The action that is played for each observation.  [B, O] -> [B, A] or [B]"""
        params = self.policy(self.torso(self.norm(obs)))
        if greedy and not self.draws:
            action = self.policy.mode(params)
        else:
            action = self.policy.sample(
                params if self.temperature == 1.0 else params / self.temperature, generator
            )
        return action if self.discrete else action.clamp(-1.0, 1.0)

    @classmethod
    def export_spec(cls, spec: EnvSpec, network: Network, **options: Any) -> Exported:
        sizes = {"obs_dim": spec.obs_shape[0], "action_dim": spec.action_dim}
        args = {
            **sizes,
            "network": describe(network),
            "discrete": spec.action_kind == "discrete",
            **options,
        }
        return Exported(f"{cls.__module__}.{cls.__qualname__}", args, "")
