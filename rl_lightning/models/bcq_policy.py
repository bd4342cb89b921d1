"""BCQ's policy: actions that the data could hold, moved a little, of which the critic takes its favourite."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Exported
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.models.described import rewritable
from rl_lightning.models.written_networks import WrittenNetwork, network_args, read_network
from rl_lightning.nn.heads.critics import make_critics, with_output
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.torso import Network

LOG_STD_BOUNDS = (-4.0, 15.0)
LATENT_LIMIT = 0.5  # decoded codes stay where the data's own are dense


def relu_layers(hidden: list[int]) -> Network:
    return partial(MLP, hidden_dims=list(hidden), activation="relu", init="default")


class ActionVAE(nn.Module):
    """The data's actions given an observation, as a conditional variational autoencoder.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        hidden_dims: Hidden sizes of encoder and decoder.
        network: What turns the input of either into features; null: such layers.
    """

    def __init__(
        self, obs_dim: int, action_dim: int, hidden_dims: list[int], network: Network | None = None
    ) -> None:
        super().__init__()
        layers = network or relu_layers(hidden_dims)
        self.latent_dim = 2 * action_dim
        self.encoder = with_output(layers, obs_dim + action_dim, 2 * self.latent_dim)
        self.decoder = with_output(layers, obs_dim + self.latent_dim, action_dim)

    def loss(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """(squared error of the reconstruction, KL to the standard normal), both means over all entries."""
        mean, log_std = self.encoder(torch.cat((obs, action), -1)).chunk(2, -1)
        log_std = log_std.clamp(*LOG_STD_BOUNDS)
        code = torch.addcmul(mean, log_std.exp(), torch.randn_like(mean))
        error = (self.decode(obs, code) - action).square().mean()
        return error, (0.5 * (mean.square() + (2.0 * log_std).exp() - 1.0) - log_std).mean()

    def decode(self, obs: Tensor, code: Tensor) -> Tensor:  # [..., O], [..., Z] -> [..., A]
        return torch.tanh(self.decoder(torch.cat((obs, code), -1)))


class Perturbation(nn.Module):
    """Moves an action by at most `phi`.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        hidden_dims: Hidden sizes.
        phi: Largest change of an entry of the action.
        network: What turns an observation with an action into features; null: layers of `hidden_dims`.
    """

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden_dims: list[int],
        phi: float,
        network: Network | None = None,
    ) -> None:
        super().__init__()
        self.phi = phi
        self.net = with_output(network or relu_layers(hidden_dims), obs_dim + action_dim, action_dim)

    def forward(self, obs: Tensor, action: Tensor) -> Tensor:
        moved = action + self.phi * torch.tanh(self.net(torch.cat((obs, action), -1)))
        return moved.clamp(-1.0, 1.0)


class BCQPolicy(nn.Module):
    """All that acting needs. Greedy acting uses codes drawn once and kept, so that it is a function of the obs.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        hidden_dims: Hidden sizes of the perturbation and of each critic.
        vae_hidden_dims: Hidden sizes of the autoencoder.
        phi: Largest change of an entry of a decoded action.
        num_samples: Actions that the critic chooses from when acting.
        network: What turns an observation with an action into features of the perturbation and of each critic, or
            that written down; null: layers of `hidden_dims`.
        vae_network: The same of the autoencoder.
    """

    codes: Tensor
    draws, discrete = False, False

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        hidden_dims: list[int],
        vae_hidden_dims: list[int],
        phi: float = 0.05,
        num_samples: int = 100,
        network: WrittenNetwork = None,
        vae_network: WrittenNetwork = None,
    ) -> None:
        super().__init__()
        own, own_vae = read_network(network), read_network(vae_network)
        self.init_args: dict[str, Any] = {
            "obs_dim": obs_dim,
            "action_dim": action_dim,
            "hidden_dims": list(hidden_dims),
            "vae_hidden_dims": list(vae_hidden_dims),
            "phi": phi,
            "num_samples": num_samples,
        }
        self.init_args |= network_args(network=own, vae_network=own_vae)
        self.describable = all(rewritable(each) for each in (own, own_vae) if each is not None)
        self.vae = ActionVAE(obs_dim, action_dim, vae_hidden_dims, own_vae)
        self.actor = Perturbation(obs_dim, action_dim, hidden_dims, phi, own)
        self.q = make_critics(2, obs_dim, action_dim, hidden_dims, own)
        codes = torch.randn(num_samples, self.vae.latent_dim)
        self.register_buffer("codes", codes.clamp_(-LATENT_LIMIT, LATENT_LIMIT))

    def sample_candidates(self, obs: Tensor) -> Tensor:
        """One likely action per row, drawn from torch's own generator.  [B, O] -> [B, A]"""
        code = torch.randn(*obs.shape[:-1], self.vae.latent_dim, device=obs.device)
        return self.vae.decode(obs, code.clamp_(-LATENT_LIMIT, LATENT_LIMIT))

    def greedy(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._best(obs, self.codes.expand(obs.shape[0], -1, -1))

    def sample(self, obs: Tensor, generator: torch.Generator, mask: Tensor | None = None) -> Tensor:
        code = standard_noise((len(obs), *self.codes.shape), generator, obs)
        return self._best(obs, code.clamp_(-LATENT_LIMIT, LATENT_LIMIT))

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        return self.greedy(obs) if greedy else self.sample(obs, generator)

    def _best(self, obs: Tensor, codes: Tensor) -> Tensor:  # [N, O], [N, K, Z] -> [N, A]
        count = codes.shape[1]
        rows = obs.unsqueeze(1).expand(-1, count, -1).flatten(0, 1)
        action = self.actor(rows, self.vae.decode(rows, codes.flatten(0, 1)))
        best = self.q(rows, action)[0].view(-1, count).argmax(-1)
        action = action.view(-1, count, action.shape[-1])
        return action.gather(1, best[:, None, None].expand(-1, 1, action.shape[-1]))[:, 0]

    def exported(self, prefix: str) -> Exported:
        """How a later stage makes this policy again, its weights lying under `prefix`."""
        return Exported(f"{type(self).__module__}.{type(self).__qualname__}", self.init_args, prefix)
