"""Policies by diffusion that a later stage can load: a behaviour that is played, and one that is guided."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Excerpt, Provided, fingerprint, load_provided
from rl_lightning.errors import ResumeError
from rl_lightning.functional.diffusion_samplers import Sampler
from rl_lightning.functional.diffusion_solvers import Move, guided
from rl_lightning.models.diffusion.action_diffusion import ActionDiffusion
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter
from rl_lightning.models.policies import ObsScale
from rl_lightning.models.recipe_specs import read_recipe, written
from rl_lightning.nn.denoisers.guide_net import GuideNet
from rl_lightning.nn.denoisers.row_denoisers import halved
from rl_lightning.nn.heads.critics import QEnsemble


def path_of(cls: type[nn.Module]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class DiffusionActor(ActionDiffusion):
    """A behaviour diffusion with the way it is played.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        denoiser: Recipe of the network, written down.
        schedule: Recipe of the noise, written down.
        sampler: Recipe of how actions are drawn, written down.
        clip: Bound of each guess of the clean action while sampling; null: none.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
    """

    draws, discrete = True, False

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        denoiser: dict[str, Any],
        schedule: dict[str, Any],
        sampler: dict[str, Any],
        clip: float | None = None,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(obs_dim, action_dim, denoiser, schedule, normalize_obs)
        self.moves = read_recipe(sampler, Sampler, "sampler").moves(self.schedule)  # type: ignore[type-abstract]
        self.clip = clip

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        return self.sample(obs, 1, self.moves, generator, self.clip)[:, 0].clamp(-1.0, 1.0)

    @classmethod
    def described(cls, model: ActionDiffusion, sampler: Sampler, clip: float | None, prefix: str) -> Provided:
        return Provided(path_of(cls), {**model.init_args, "sampler": written(sampler), "clip": clip}, prefix)


class GuidedPolicy(Excerpt):
    """Diffusion-DICE's policy: guided samples of a frozen behaviour, of which critics choose one.

    Args:
        behavior: Product of the behaviour diffusion.
        mark: Fingerprint of its weights; another behaviour is refused.
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        guide: Arguments of the guide.
        critics: How many critics choose.
        critic_hidden: Their hidden sizes.
        critic: What the critics are called in the checkpoint: q_slow or q_more.
        sampler: Recipe of how candidates are drawn, written down.
        filter: Recipe of who chooses among them, written down.
        candidates: Actions drawn for each observation.
        scale: How far samples follow the guide.
        clip: Bound of each guess of the clean action while sampling; null: none.
        half: Draw candidates in half precision.
        normalize_obs: Scale observations by statistics that are part of the model.
    """

    draws, discrete = True, False

    def __init__(
        self,
        behavior: str,
        mark: str,
        obs_dim: int,
        action_dim: int,
        guide: dict[str, Any],
        critics: int,
        critic_hidden: list[int],
        critic: str,
        sampler: dict[str, Any],
        filter: dict[str, Any],
        candidates: int,
        scale: float,
        clip: float | None,
        half: bool = False,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}
        self.source, self.mark, self.critic, self.candidates = behavior, mark, critic, candidates
        self.scale, self.clip, self.in_half = scale, clip, half
        self.sampler = read_recipe(sampler, Sampler, "sampler")  # type: ignore[type-abstract]
        self.filter = read_recipe(filter, CandidateFilter, "filter")  # type: ignore[type-abstract]
        self.norm: nn.Module = ObsScale(obs_dim) if normalize_obs else nn.Identity()
        self.guide = GuideNet(action_dim, obs_dim, **guide)
        self.add_module(critic, QEnsemble(critics, obs_dim, action_dim, critic_hidden))

    @cached_property
    def behavior(self) -> Any:
        with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
            found = load_provided(self.source, "behavior")
        if fingerprint(found) != self.mark:
            raise ResumeError(f"{self.source}: not the behaviour that this policy was trained with")
        return found

    @cached_property
    def moves(self) -> list[Move]:
        return self.sampler.moves(self.behavior.schedule)

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        nets = [self.behavior.to(obs.device), self.guide]
        behavior, guide = [halved(net) for net in nets] if self.in_half else nets
        action = guided_actions(
            behavior, guide, self.norm, obs, self.candidates, self.moves, generator, self.clip, self.scale
        )
        if self.candidates == 1:
            return action[:, 0]
        q = judged(getattr(self, self.critic), self.norm, obs, action)
        return picked(action, self.filter.choose(q, generator))


def guided_actions(
    behavior: Any,
    guide: Any,
    norm: nn.Module,
    obs: Tensor,
    count: int,
    moves: list[Move],
    generator: torch.Generator,
    clip: float | None,
    scale: float,
) -> Tensor:
    """Guided samples inside the env's bounds.  [B, O] -> [B, K, A]"""
    dtype = guide.last.weight.dtype
    seen = norm(obs).to(dtype).unsqueeze(1)

    def gradient(x: Tensor, time: float) -> Tensor:
        at = torch.full((1, 1), time, device=x.device)
        return guide.gradient(x.to(dtype), at, seen).to(x.dtype)

    lean = partial(guided, gradient=gradient, scale=scale, schedule=behavior.schedule)
    return behavior.sample(obs, count, moves, generator, clip, lean).clamp(-1.0, 1.0)


def judged(critic: nn.Module, norm: nn.Module, obs: Tensor, action: Tensor) -> Tensor:
    """What critics think of candidates.  [B, O], [B, K, A] -> [E, B, K]"""
    seen = norm(obs).unsqueeze(1).expand(-1, action.shape[1], -1)
    found = critic(seen.flatten(0, 1), action.flatten(0, 1))
    return found.reshape(-1, *action.shape[:2])


def picked(action: Tensor, chosen: Tensor) -> Tensor:
    """One candidate of each row.  [B, K, A], [B] -> [B, A]"""
    return action.gather(1, chosen[:, None, None].expand(-1, 1, action.shape[-1]))[:, 0]
