"""Value functions: of states, of state-action pairs (ensembles), and of every discrete action."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.kernels.choice import is_hooked
from rl_lightning.kernels.mlp import ensemble_mlp, pays
from rl_lightning.kernels.normed_ensemble import normed_ensemble
from rl_lightning.nn.ensemble import EnsembleLinear, EnsembleNorm
from rl_lightning.nn.init import make_activation, orthogonal_
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.mlp import plain_stack
from rl_lightning.nn.multi_input import MultiInput
from rl_lightning.nn.torso import FeedForward, Network, Torso
from rl_lightning.observations import ObsLayout


class ValueHead(nn.Module):
    """Features to a value.  [..., F] -> [...]"""

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, 1)
        orthogonal_(self.linear, 1.0)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(features).squeeze(-1)


class QEnsemble(nn.Module):
    """E critics of a continuous action as one batched network.

    Args:
        ensemble_size: Number of critics.
        obs: Width of flat observations, or a feed-forward torso that encodes them for all members.
        action_dim: Width of an action.
        hidden_dims: Width of each hidden layer.
        activation: Non-linearity after each hidden layer.
        layer_norm: Normalise each hidden layer's output before its activation.
        norm_last: Normalise it behind its activation instead.
        dropout: Fraction of each hidden layer's outputs that is left out in training, before norm and activation.
    """

    def __init__(
        self,
        ensemble_size: int,
        obs: int | FeedForward,
        action_dim: int,
        hidden_dims: Sequence[int] = (256, 256),
        activation: str = "relu",
        layer_norm: bool = False,
        norm_last: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.ensemble_size = ensemble_size
        self.torso = obs if isinstance(obs, FeedForward) else None
        size = (obs if isinstance(obs, int) else obs.out_dim) + action_dim
        layers: list[nn.Module] = []
        for width in hidden_dims:
            layers.append(EnsembleLinear(ensemble_size, size, width))
            if dropout > 0.0:
                layers.append(nn.Dropout(dropout))
            norm = [EnsembleNorm(ensemble_size, width)] if layer_norm else []
            unit = [make_activation(activation)]
            layers += [*unit, *norm] if norm_last else [*norm, *unit]
            size = width
        layers.append(EnsembleLinear(ensemble_size, size, 1))
        self.layers = nn.Sequential(*layers)

    def tensors(self) -> list[Tensor]:
        """Weights and biases of the layers, in order; a module's own walk costs more than a small product."""
        return [p for layer in self.layers for p in layer._parameters.values() if p is not None]

    def forward(
        self, obs: Tensor, action: Tensor
    ) -> Tensor:  # [B, O], [B, A] or [E, B, O], [E, B, A] -> [E, B]
        features = obs if self.torso is None else self.torso(obs)
        rows = torch.cat((features, action), -1)
        stack = plain_stack(self.layers, EnsembleLinear) if rows.ndim == 2 else None
        if stack is not None and pays(rows, *stack[:2]):
            return ensemble_mlp(rows, *stack[:2]).squeeze(-1)
        normed = normed_stack(self.layers) if rows.ndim == 2 else None
        if normed is not None and pays(
            rows, [p for p in normed[0] if p.shape[1] > 1 for _ in range(2)], torch.relu_
        ):
            return normed_ensemble(rows, *normed).squeeze(-1)
        return self.layers(rows).squeeze(-1)


def normed_stack(layers: nn.Sequential) -> tuple[list[Tensor], bool] | None:
    """Parameters of linear layers with ReLU and norm between them, and whether the norm comes last; None for any other
    layers, and where somebody waits for one of them to be called."""
    modules = list(layers._modules.values())
    if len(modules) < 4 or type(modules[-1]) is not EnsembleLinear or is_hooked(modules):
        return None
    first = [EnsembleLinear, nn.ReLU, EnsembleNorm]
    for order, norm_last in ((first, True), ([first[0], first[2], first[1]], False)):
        if [type(m) for m in modules[:-1]] == order * (len(modules) // 3):
            return [
                p for m in modules if m is not None for p in m._parameters.values() if p is not None
            ], norm_last
    return None


class QNetworks(nn.Module):
    """E critics of a continuous action, each with a network of its own.

    Args:
        members: Number of critics.
        obs_dim: Width of flat observations.
        action_dim: Width of an action.
        network: What turns an observation with an action into features.
    """

    def __init__(self, members: int, obs_dim: int, action_dim: int, network: Network) -> None:
        super().__init__()
        self.ensemble_size = members
        self.nets = nn.ModuleList(with_output(network, obs_dim + action_dim, 1) for _ in range(members))

    def tensors(self) -> list[Tensor]:
        return list(self.parameters())

    def forward(
        self, obs: Tensor, action: Tensor
    ) -> Tensor:  # [B, O], [B, A] or [E, B, O], [E, B, A] -> [E, B]
        rows = torch.cat((obs, action), -1)
        own = rows if rows.ndim == 3 else rows.expand(self.ensemble_size, *rows.shape)
        return torch.stack([net(part).squeeze(-1) for net, part in zip(self.nets, own, strict=True)])


def with_output(network: Network, obs: int | ObsLayout, out_dim: int) -> nn.Sequential:
    """A network that does not remember, and a linear layer on top."""
    torso = make_feed_forward(network, obs if isinstance(obs, ObsLayout) else (obs,))
    return nn.Sequential(torso, nn.Linear(torso.out_dim, out_dim))


def make_critics(
    members: int,
    obs: int | ObsLayout,
    action_dim: int,
    hidden: Sequence[int],
    network: Network | None,
    layer_norm: bool = False,
    norm_last: bool = False,
    dropout: float = 0.0,
    activation: str = "relu",
) -> QEnsemble | QNetworks:
    """Critics of flat observations: of the network, or of plain layers, which are computed all at once. What parts
    observations have, one encoder sees for all critics."""
    if network is not None and not isinstance(obs, ObsLayout):
        if dropout:
            raise ConfigError(
                f"model.critic_dropout {dropout:g} is of plain layers; give model.critic_network dropout of its own"
            )
        return QNetworks(members, obs, action_dim, network)
    seen = make_feed_forward(network or MultiInput, obs) if isinstance(obs, ObsLayout) else obs
    return QEnsemble(members, seen, action_dim, hidden, activation, layer_norm, norm_last, dropout)


class DiscreteQNet(nn.Module):
    """The value of every discrete action.  [B, *O] -> [B, A]

    Args:
        torso: Encodes observations.
        actions: Number of actions.
        dueling: Estimate the state's value and the actions' advantages apart, a hidden layer each.
    """

    def __init__(self, torso: Torso, actions: int, dueling: bool = False) -> None:
        super().__init__()
        self.torso = torso
        self.actions = actions
        self.dueling = dueling
        width = torso.out_dim
        if dueling:
            self.advantage = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, actions))
            self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        else:
            self.advantage = nn.Sequential(nn.Linear(width, actions))
            self.value = nn.Sequential()

    def head(self, features: Tensor) -> Tensor:  # [..., F] -> [..., A]
        advantage = self.advantage(features)
        if not self.dueling:
            return advantage
        return self.value(features) + advantage - advantage.mean(-1, keepdim=True)

    def forward(self, obs: Tensor) -> Tensor:
        return self.head(self.torso(obs))


class QuantileQNet(DiscreteQNet):
    """Quantiles of every discrete action's return; its value is their mean.  [B, *O] -> [B, A]

    Args:
        torso: Encodes observations.
        actions: Number of actions.
        num_quantiles: Of each action, at the middles of as many equal parts of probability.
    """

    def __init__(self, torso: Torso, actions: int, num_quantiles: int) -> None:
        super().__init__(torso, actions * num_quantiles)
        self.actions, self.num_quantiles = actions, num_quantiles

    def quantiles(self, obs: Tensor) -> Tensor:  # [B, *O] -> [B, A, N]
        return super().forward(obs).unflatten(-1, (self.actions, self.num_quantiles))

    def forward(self, obs: Tensor) -> Tensor:
        return self.quantiles(obs).mean(-1)


class DiscreteQEnsemble(nn.Module):
    """E separate networks of discrete actions' values.  [B, *O] -> [E, B, A]

    Args:
        torsos: One torso per member; the same one several times is shared.
        actions: Number of actions.
        dueling: Estimate the state's value and the actions' advantages apart.
    """

    def __init__(self, torsos: Sequence[Torso], actions: int, dueling: bool = False) -> None:
        super().__init__()
        self.nets = nn.ModuleList(DiscreteQNet(torso, actions, dueling) for torso in torsos)

    def forward(self, obs: Tensor) -> Tensor:
        return torch.stack([net(obs) for net in self.nets])
