"""The recurrent state-space model of PlaNet and the Dreamers: h' = f(h, z, a), prior p(z|h), posterior q(z|h, e)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.factories import make
from rl_lightning.models.rssm.latents import Latent
from rl_lightning.nn.dense import Dense, DenseStack
from rl_lightning.nn.rssm_cores import Core, CoreFactory, Weights
from rl_lightning.types import Carry


class LatentState(NamedTuple):
    """Where a latent world stands."""

    deter: Tensor  # [..., D]
    stoch: Tensor  # [..., Z]

    @property
    def feature(self) -> Tensor:
        return torch.cat((self.deter, self.stoch), -1)

    def detach(self) -> LatentState:
        return LatentState(self.deter.detach(), self.stoch.detach())


class Observed(NamedTuple):
    """States that a sequence of observations led to, time first, and the parameters they were drawn from."""

    state: LatentState  # [T, B, ...]
    post: Tensor  # [T, B, P]
    prior: Tensor  # [T, B, P]


class RSSM(nn.Module):
    """The recurrence. The carry is (deter, stoch, last action); all zeros at the start of an episode.

    Args:
        core: What makes the deterministic part.
        latent: The stochastic part.
        embed_dim: Width of an encoded observation.
        action_dim: Width of an action row.
        hidden_dim: Width of the layers before prior and posterior.
        prior_layers: Layers before the prior.
        norm: Of those layers: layer, rms or none.
        activation: Of those layers.
    """

    def __init__(
        self,
        core: CoreFactory,
        latent: Latent,
        embed_dim: int,
        action_dim: int,
        hidden_dim: int,
        prior_layers: int = 1,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        super().__init__()
        self.latent, self.action_dim = latent, action_dim
        self.core = make(core, Core, "core", latent.dim, action_dim)
        self.deter = self.core.deter
        self.feature_dim = self.deter + latent.dim
        hidden_dims = [hidden_dim] * prior_layers
        self.prior_net = DenseStack(self.deter, hidden_dims, latent.params_dim, norm, activation)
        self.post_hidden = Dense([self.deter, embed_dim], hidden_dim, norm, activation)
        self.post_top = nn.Linear(hidden_dim, latent.params_dim)
        nn.init.xavier_uniform_(self.post_top.weight)
        nn.init.zeros_(self.post_top.bias)

    def initial(self, count: int, like: Tensor) -> Carry:
        """The carry at the start of `count` episodes."""
        return tuple(like.new_zeros(count, width) for width in (self.deter, self.latent.dim, self.action_dim))

    def split(self, flat: Tensor) -> Carry:
        """A carry from its parts side by side, as buffers keep it."""
        return flat.split((self.deter, self.latent.dim, self.action_dim), -1)

    def observe(self, embed: Tensor, action: Tensor, is_first: Tensor, carry: Carry) -> Observed:
        """Posteriors of a sequence: embed [T, B, E], action [T, B, A] taken after each, is_first [T, B].

        What does not hang on the recurrence is computed for all steps at once, before it and after it.
        """
        deter, stoch, last_action = carry
        keep = (~is_first).to(embed.dtype).unsqueeze(-1)
        before = torch.cat((last_action.unsqueeze(0), action[:-1])) * keep
        action_parts = self.core.project(before).unbind()
        by_deter, by_embed = self.post_hidden.parts()
        embed_parts = F.linear(embed, by_embed, self.post_hidden.bias).unbind()
        noise = self.latent.noise(embed.shape[:2], embed).unbind()
        resets, keeps = is_first.any(1).tolist(), keep.unbind()
        by_deter, weights = by_deter.t(), self.core.weights()
        deters, stochs, posts = [], [], []
        for t, reset in enumerate(resets):
            if reset:
                deter, stoch = deter * keeps[t], stoch * keeps[t]
            deter = self.core.step(deter, stoch, action_parts[t], weights)
            hidden = self.post_hidden.finish(torch.addmm(embed_parts[t], deter, by_deter))
            post = self.post_top(hidden)
            stoch = self.latent.sample(post, noise[t])
            deters.append(deter)
            stochs.append(stoch)
            posts.append(post)
        state = LatentState(torch.stack(deters), torch.stack(stochs))
        return Observed(state, torch.stack(posts), self.prior_net(state.deter))

    def obs_step(self, embed: Tensor, carry: Carry, generator: torch.Generator | None) -> LatentState:
        """The posterior after one more observation, embed [B, E]; the likeliest one without a generator."""
        deter, stoch, last_action = carry
        deter = self.core.step(deter, stoch, self.core.project(last_action), self.core.weights())
        post = self.post_top(self.post_hidden(deter, embed))
        if generator is None:
            return LatentState(deter, self.latent.mode(post))
        return LatentState(deter, self.latent.sample(post, self.latent.noise((len(embed),), post, generator)))

    def cached_weights(self) -> Weights:
        """What `dream` needs of the weights, made once for many steps."""
        return self.core.weights()

    def img_step(
        self, state: LatentState, action: Tensor, noise: Tensor | None, weights: Weights | None = None
    ) -> LatentState:
        """One step without an observation, action [B, A]; the likeliest one without noise."""
        weights = self.core.weights() if weights is None else weights
        deter = self.core.step(state.deter, state.stoch, self.core.project(action), weights)
        prior = self.prior_net(deter)
        return LatentState(
            deter, self.latent.mode(prior) if noise is None else self.latent.sample(prior, noise)
        )
