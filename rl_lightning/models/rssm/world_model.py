"""A learned latent world: encoder, recurrent state-space model, and heads for what is seen, received and over."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.factories import make
from rl_lightning.functional.latent import symlog
from rl_lightning.models.rssm.decoders import DecoderFactory
from rl_lightning.models.rssm.heads import (
    ContinueHead,
    ContinueHeadFactory,
    MSEHead,
    ScalarHead,
    ScalarHeadFactory,
)
from rl_lightning.models.rssm.latent_actors import action_rows, env_actions
from rl_lightning.models.rssm.latents import FreeNatsKL, GaussianLatent, KLLoss, Latent
from rl_lightning.models.rssm.parts import make_decoder, make_encoder
from rl_lightning.models.rssm.rssm import RSSM, LatentState, Observed
from rl_lightning.nn.rssm_cores import CoreFactory, GRUCore
from rl_lightning.nn.torso import Network
from rl_lightning.types import Carry, EnvSpec, Sequences


class Window(NamedTuple):
    """Rows to learn from, time first, and the state they are arrived at with."""

    obs: Tensor  # [T, B, *O]
    action: Tensor  # [T, B, A] as rows
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    is_first: Tensor
    carry: Carry
    burned: Tensor | None = None  # [K, B, W] states of the rows that only warmed up


class LatentRollout(NamedTuple):
    """ImaginedTrajectory states 0 ... H, the first of which was observed, and the actions between them."""

    state: LatentState  # [H+1, N, ...]
    action: Tensor  # [H, N, A]


class ImaginedTrajectory(NamedTuple):
    """H imagined steps of N worlds, batch first."""

    obs: Tensor  # [N, H, *O] what would be seen after each action; pixels in [0, 1]
    action: Tensor  # [N, H, ...] as an env takes it
    reward: Tensor  # [N, H]
    continuation: Tensor  # [N, H] discount of going on


SQUASHES: dict[str, Callable[[Tensor], Tensor]] = {"none": lambda r: r, "symlog": symlog, "tanh": torch.tanh}


class LatentWorld(nn.Module):
    """A world model; the Dreamers and PlaNet differ in what it is made of.

    Sequences come batch first and are turned time first once.

    Args:
        latent: The stochastic state: GaussianLatent or CategoricalLatent.
        core: The deterministic state: GRUCore, NormGRUCore or BlockGRUCore.
        encoder: What sees observations: MLPEncoder, ConvEncoder, IdentityEncoder or any network without memory; an
            encoder for each part of a Dict: MultiInput.
        decoder: What shows them: MLPDecoder, ConvDecoder or IdentityDecoder; of a Dict: MultiDecoder.
        kl: How prior and posterior are taught: FreeNatsKL, BalancedKL or DynRepKL.
        reward_head: Head for the reward of arriving: MSEHead or TwoHotHead.
        continue_head: Head for whether the episode goes on; null: it always does.
        hidden_dim: Width of the layers before prior and posterior.
        prior_layers: Layers before the prior.
        norm: Of those layers: layer, rms or none.
        activation: Of those layers.
        reward_coef: Of the reward's loss.
        squash_rewards: none, tanh (v2 on Atari) or symlog.
    """

    def __init__(
        self,
        spec: EnvSpec,
        gamma: float,
        /,
        latent: Latent | None = None,
        core: CoreFactory | None = None,
        encoder: Network | None = None,
        decoder: DecoderFactory | None = None,
        kl: KLLoss | None = None,
        reward_head: ScalarHeadFactory | None = None,
        continue_head: ContinueHeadFactory | None = None,
        hidden_dim: int = 200,
        prior_layers: int = 1,
        norm: str = "none",
        activation: str = "elu",
        reward_coef: float = 1.0,
        squash_rewards: str = "none",
    ) -> None:
        super().__init__()
        latent, self.kl = latent or GaussianLatent(), kl or FreeNatsKL()
        self.kl.check(latent)
        if squash_rewards not in SQUASHES:
            raise ConfigError(
                f"model.world_model.squash_rewards is {squash_rewards!r}; choose {', '.join(SQUASHES)}"
            )
        self.spec, self.gamma = spec, gamma
        self.reward_coef, self.squash = reward_coef, SQUASHES[squash_rewards]
        self.encoder = make_encoder(encoder, spec.obs_layout)
        self.rssm = RSSM(
            core or GRUCore, latent, self.encoder.out_dim, spec.action_dim,
            hidden_dim, prior_layers, norm, activation,
        )  # fmt: skip
        self.feature_dim = width = self.rssm.feature_dim
        self.decoder = make_decoder(decoder, width, self.rssm.deter, spec.obs_layout)
        self.reward_head = make(reward_head or MSEHead, ScalarHead, "reward_head", width)
        self.continue_head = continue_head and make(
            continue_head, ContinueHead, "continue_head", width, gamma
        )

    def window(self, batch: Sequences) -> Window:
        """Rows as the model takes them; those of the burn-in are already behind it."""
        action = action_rows(self.spec, batch.action).transpose(0, 1)
        obs, reward, terminated, truncated, is_first = (
            field.transpose(0, 1)
            for field in (batch.obs, batch.reward, batch.terminated, batch.truncated, batch.is_first)
        )
        rssm = self.rssm
        carry = rssm.initial(len(batch.obs), action) if batch.latent is None else rssm.split(batch.latent)
        burned, k = None, batch.burn_in
        if k:
            with torch.no_grad():
                state = rssm.observe(self.encoder(obs[:k]), action[:k], is_first[:k], carry).state
            carry = (state.deter[-1], state.stoch[-1], action[k - 1])
            burned = torch.cat((*state, action[:k]), -1)
        return Window(
            obs[k:], action[k:], self.squash(reward[k:]), terminated[k:], truncated[k:], is_first[k:],
            carry, burned,
        )  # fmt: skip

    def observe(self, window: Window) -> Observed:
        return self.rssm.observe(self.encoder(window.obs), window.action, window.is_first, window.carry)

    def losses(self, window: Window, observed: Observed) -> tuple[dict[str, Tensor], Tensor]:
        """(loss of each part [T, B], but the KL's, which is a scalar already; mean divergence)."""
        feature = observed.state.feature
        losses = {
            "decoder": self.decoder.loss(feature, window.obs),
            "reward": self.reward_coef * self.reward_head.loss(self.reward_head(feature), window.reward),
        }
        if self.continue_head is not None:
            losses["continue"] = self.continue_head.loss(feature, window.terminated)
        losses["kl"], divergence = self.kl(self.rssm.latent, observed.post, observed.prior)
        return losses, divergence

    def carry_after_rows(self, window: Window, observed: Observed) -> Tensor:
        """The carry after every row, as buffers keep it, burn-in included.  [B, L, W]"""
        after = torch.cat((*observed.state, window.action), -1).detach()
        whole = after if window.burned is None else torch.cat((window.burned, after))
        return whole.transpose(0, 1)

    def continuation(self, feature: Tensor) -> Tensor:
        """Discount of going on from each state."""
        if self.continue_head is None:
            return feature.new_full(feature.shape[:-1], self.gamma)
        return self.continue_head.continuation(feature)

    def imagine_latents(
        self, start: LatentState, choose: Callable[[Tensor, int], Tensor], horizon: int
    ) -> LatentRollout:
        """`horizon` steps from states [N, ...]; `choose` takes features [N, F] and the step, and gives action rows."""
        rssm, weights = self.rssm, self.rssm.cached_weights()
        noise = rssm.latent.noise((horizon, len(start.deter)), start.deter).unbind()
        states, actions = [start], []
        for t in range(horizon):
            actions.append(choose(states[-1].feature, t))
            states.append(rssm.img_step(states[-1], actions[-1], noise[t], weights))
        deter, stoch = (torch.stack(parts) for parts in zip(*states, strict=True))
        return LatentRollout(LatentState(deter, stoch), torch.stack(actions))

    @torch.no_grad()
    def imagine(
        self,
        carry: Carry,
        choose: Callable[[LatentState], Tensor],
        horizon: int,
        actions: Tensor | None = None,
    ) -> ImaginedTrajectory:
        """What is expected from where an agent stands, its last action still to be done, the likeliest every time.

        `actions` [N, H, ...] are taken as they are; else the agent's own last one, and then what `choose` says.
        """
        deter, stoch, action = carry
        here, features, taken = LatentState(deter, stoch), [], []
        fixed_actions = None if actions is None else action_rows(self.spec, actions)
        for t in range(horizon if fixed_actions is None else fixed_actions.shape[1]):
            if fixed_actions is not None:
                action = fixed_actions[:, t]
            elif t:
                action = choose(here)
            here = self.rssm.img_step(here, action, None)
            features.append(here.feature)
            taken.append(env_actions(self.spec, action))
        feature = torch.stack(features, 1)
        return ImaginedTrajectory(
            self.decoder.predict(feature),
            torch.stack(taken, 1),
            self.reward_head.value(feature),
            self.continuation(feature),
        )


# Makes the model of a world like this, under this discount.
LatentWorldFactory = Callable[[EnvSpec, float], LatentWorld]
