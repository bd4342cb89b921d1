"""The latent model that TD-MPC plans with: plain numbers, two value functions, a policy with small noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.models.latent_mpc.latent_world import LatentModel
from rl_lightning.nn.ensemble import EnsembleLinear, EnsembleNorm
from rl_lightning.nn.init import orthogonal_


class TOLDModel(LatentModel):
    """TD-MPC: an unconstrained latent, two value functions of plain numbers, a deterministic policy with noise.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        latent_dim: Width of the latent.
        encoder_hidden_dim: Width of the encoder's hidden layer.
        hidden_dim: Width of the two hidden layers of all other networks.
        policy_std: Standard deviation of the policy's noise.
        noise_limit: And the most that it may be.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        latent_dim: int = 50,
        encoder_hidden_dim: int = 256,
        hidden_dim: int = 512,
        policy_std: float = 0.05,
        noise_limit: float = 0.3,
    ) -> None:
        super().__init__()
        both = latent_dim + action_dim
        self.policy_std, self.noise_limit = policy_std, noise_limit
        self.encoder = nn.Sequential(
            nn.Linear(obs_dim, encoder_hidden_dim), nn.ELU(), nn.Linear(encoder_hidden_dim, latent_dim)
        )
        self.dynamics, self.reward = _plain(both, hidden_dim, latent_dim), _plain(both, hidden_dim, 1)
        self.policy = _plain(latent_dim, hidden_dim, action_dim)
        for net in (self.encoder, self.dynamics, self.reward, self.policy):
            orthogonal_(net, 1.0)
        _zero(self.reward[-1])
        self.q = TwinQ(both, hidden_dim)

    def encode(self, obs: Tensor) -> Tensor:
        return self.encoder(obs)

    def step(self, latent: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        both = torch.cat((latent, action), -1)
        return self.dynamics(both), self.reward(both)[..., 0]

    def choose(self, latent: Tensor, noise: Tensor) -> Tensor:
        """The policy's action with given standard noise."""
        small = (self.policy_std * noise).clamp(-self.noise_limit, self.noise_limit)
        return (torch.tanh(self.policy(latent)) + small).clamp(-1.0, 1.0)

    def sample_action(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        shape = (*latent.shape[:-1], self.policy[-1].out_features)
        return self.choose(latent, standard_noise(shape, generator, latent))

    def value(self, latent: Tensor, generator: torch.Generator) -> Tensor:
        """The lower of both value functions."""
        return self.q(torch.cat((latent, self.sample_action(latent, generator)), -1)).amin(0)


class TwinQ(nn.Module):
    """Two value functions of TD-MPC's own shape: linear, layer norm, tanh, linear, ELU, linear. Last layers at zero."""

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.first, self.norm = EnsembleLinear(2, in_dim, hidden_dim), EnsembleNorm(2, hidden_dim)
        self.second, self.last = EnsembleLinear(2, hidden_dim, hidden_dim), EnsembleLinear(2, hidden_dim, 1)
        for layer in (self.first, self.second):
            for member in layer.weight.data:
                nn.init.orthogonal_(member)
            nn.init.zeros_(layer.bias)
        _zero(self.last)

    def forward(self, inputs: Tensor) -> Tensor:  # [..., I] -> [2, ...]
        rows = inputs.flatten(0, -2)
        out = self.last(F.elu(self.second(torch.tanh(self.norm(self.first(rows))))))
        return out.view(2, *inputs.shape[:-1])


def _plain(in_dim: int, hidden: int, out_dim: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_dim, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, out_dim)
    )


def _zero(layer: nn.Module) -> None:
    nn.init.zeros_(layer.weight)  # type: ignore[arg-type]
    nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
