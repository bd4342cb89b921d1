"""Policies by diffusion that a later stage can load: a behaviour that is played, and one that is guided."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from rl_lightning.artifacts import Excerpt, Exported, fingerprint, load_exported
from rl_lightning.errors import ResumeError
from rl_lightning.functional.diffusion_samplers import Sampler
from rl_lightning.functional.diffusion_solvers import SolverStep, guided_eps
from rl_lightning.models.described import describe, rebuild
from rl_lightning.models.diffusion.action_diffusion import ActionDiffusion
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter
from rl_lightning.models.policies import ObsNormalizer
from rl_lightning.nn.denoisers.guide_net import GuideNet
from rl_lightning.nn.denoisers.row_denoisers import to_bfloat16
from rl_lightning.nn.heads.critics import QEnsemble


def path_of(cls: type[nn.Module]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class DiffusionActor(ActionDiffusion):
    """A behaviour diffusion with the way it is played.

    Args:
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        denoiser: What makes the network, written down.
        noise_schedule: How noise grows, written down.
        sampler: How actions are drawn, written down.
        clip_denoised: Bound of each guess of the clean action while sampling; null: none.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
    """

    draws, discrete = True, False

    def __init__(
        self,
        obs_dim: int,
        action_dim: int,
        denoiser: dict[str, Any],
        noise_schedule: dict[str, Any],
        sampler: dict[str, Any],
        clip_denoised: float | None = None,
        normalize_obs: bool = False,
    ) -> None:
        super().__init__(obs_dim, action_dim, denoiser, noise_schedule, normalize_obs)
        self.solver_steps = rebuild(sampler, "the sampler", Sampler).solver_steps(self.noise_schedule)
        self.clip_denoised = clip_denoised

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        return self.sample(obs, 1, self.solver_steps, generator, self.clip_denoised)[:, 0].clamp(-1.0, 1.0)

    @classmethod
    def export_spec(
        cls, model: ActionDiffusion, sampler: Sampler, clip: float | None, prefix: str
    ) -> Exported:
        return Exported(
            path_of(cls), {**model.init_args, "sampler": describe(sampler), "clip_denoised": clip}, prefix
        )


class GuidedPolicy(Excerpt):
    """Diffusion-DICE's policy: guided samples of a frozen behaviour, of which critics choose one.

    Args:
        behavior: Artifact of the behaviour diffusion.
        mark: Fingerprint of its weights; another behaviour is refused.
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        guide: Arguments of the guide.
        num_critics: How many critics choose.
        critic_hidden_dims: Their hidden sizes.
        critic: What the critics are called in the checkpoint: q_target or selection_q.
        sampler: How candidates are drawn, written down.
        candidate_filter: Who chooses among them, written down.
        num_samples: Actions drawn for each observation.
        guidance_scale: How far samples follow the guide.
        clip_denoised: Bound of each guess of the clean action while sampling; null: none.
        sampling_dtype: float32 or bfloat16, of the networks while candidates are drawn.
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
        num_critics: int,
        critic_hidden_dims: list[int],
        critic: str,
        sampler: dict[str, Any],
        candidate_filter: dict[str, Any],
        num_samples: int,
        guidance_scale: float,
        clip_denoised: float | None,
        sampling_dtype: str = "float32",
        normalize_obs: bool = False,
    ) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}
        self.source, self.mark, self.critic, self.num_samples = behavior, mark, critic, num_samples
        self.guidance_scale, self.clip_denoised, self.sampling_dtype = (
            guidance_scale,
            clip_denoised,
            sampling_dtype,
        )
        self.sampler = rebuild(sampler, "the sampler", Sampler)
        self.candidate_filter = rebuild(candidate_filter, "the candidate filter", CandidateFilter)
        self.norm: nn.Module = ObsNormalizer(obs_dim) if normalize_obs else nn.Identity()
        self.guide = GuideNet(action_dim, obs_dim, **guide)
        self.add_module(critic, QEnsemble(num_critics, obs_dim, action_dim, critic_hidden_dims))

    @cached_property
    def behavior(self) -> Any:
        with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
            behavior = load_exported(self.source, "behavior")
        if fingerprint(behavior) != self.mark:
            raise ResumeError(f"{self.source}: not the behaviour that this policy was trained with")
        return behavior

    @cached_property
    def solver_steps(self) -> list[SolverStep]:
        return self.sampler.solver_steps(self.behavior.noise_schedule)

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        nets = [self.behavior.to(obs.device), self.guide]
        behavior, guide = [to_bfloat16(net) for net in nets] if self.sampling_dtype == "bfloat16" else nets
        action = guided_actions(
            behavior,
            guide,
            self.norm,
            obs,
            self.num_samples,
            self.solver_steps,
            generator,
            self.clip_denoised,
            self.guidance_scale,
        )
        if self.num_samples == 1:
            return action[:, 0]
        q = judged(getattr(self, self.critic), self.norm, obs, action)
        return picked(action, self.candidate_filter.choose(q, generator))


def guided_actions(
    behavior: Any,
    guide: Any,
    norm: nn.Module,
    obs: Tensor,
    count: int,
    moves: list[SolverStep],
    generator: torch.Generator,
    clip: float | None,
    scale: float,
) -> Tensor:
    """Guided samples inside the env's bounds.  [B, O] -> [B, K, A]"""
    dtype = guide.last.weight.dtype
    cond = norm(obs).to(dtype).unsqueeze(1)

    def gradient(x: Tensor, time: float) -> Tensor:
        at = torch.full((1, 1), time, device=x.device)
        return guide.gradient(x.to(dtype), at, cond).to(x.dtype)

    lean = partial(guided_eps, gradient=gradient, scale=scale, schedule=behavior.noise_schedule)
    return behavior.sample(obs, count, moves, generator, clip, lean).clamp(-1.0, 1.0)


def judged(critic: nn.Module, norm: nn.Module, obs: Tensor, action: Tensor) -> Tensor:
    """What critics think of candidates.  [B, O], [B, K, A] -> [E, B, K]"""
    cond = norm(obs).unsqueeze(1).expand(-1, action.shape[1], -1)
    values = critic(cond.flatten(0, 1), action.flatten(0, 1))
    return values.reshape(-1, *action.shape[:2])


def picked(action: Tensor, chosen: Tensor) -> Tensor:
    """One candidate of each row.  [B, K, A], [B] -> [B, A]"""
    return action.gather(1, chosen[:, None, None].expand(-1, 1, action.shape[-1]))[:, 0]


def chosen_candidate(
    model: ActionDiffusion,
    critic: nn.Module,
    obs: Tensor,
    count: int,
    moves: list[SolverStep],
    candidate_filter: CandidateFilter,
    generator: torch.Generator,
) -> Tensor:
    """Of `count` samples that which critics choose.  [B, O] -> [B, A]"""
    action = model.sample(obs, count, moves, generator, 1.0).clamp(-1.0, 1.0)
    return picked(action, candidate_filter.choose(judged(critic, model.norm, obs, action), generator))


class ChosenCandidate(Excerpt):
    """Diffusion-QL's policy: samples of a diffusion of which critics choose one.

    Args:
        model: Arguments of the diffusion.
        obs_dim: Width of an observation.
        action_dim: Width of an action.
        critic_hidden_dims: Hidden sizes of the critics.
        sampler: How candidates are drawn, written down.
        candidate_filter: Who chooses among them, written down.
        num_samples: Actions drawn for each observation.
    """

    draws, discrete = True, False

    def __init__(
        self,
        model: dict[str, Any],
        obs_dim: int,
        action_dim: int,
        critic_hidden_dims: list[int],
        sampler: dict[str, Any],
        candidate_filter: dict[str, Any],
        num_samples: int,
    ) -> None:
        super().__init__()
        self.init_args = {"obs_dim": obs_dim, "action_dim": action_dim}
        self.model = ActionDiffusion(**model)
        self.q_target = QEnsemble(2, obs_dim, action_dim, critic_hidden_dims, "mish")
        self.solver_steps = rebuild(sampler, "the sampler", Sampler).solver_steps(self.model.noise_schedule)
        self.candidate_filter = rebuild(candidate_filter, "the candidate filter", CandidateFilter)
        self.num_samples = num_samples

    def choose(self, obs: Tensor, generator: torch.Generator, greedy: bool) -> Tensor:
        """An action for each observation; there is no greedy one.  [B, O] -> [B, A]"""
        how = (self.num_samples, self.solver_steps, self.candidate_filter)
        return chosen_candidate(self.model, self.q_target, obs, *how, generator)

    @classmethod
    def export_spec(
        cls,
        model: ActionDiffusion,
        critic_hidden_dims: list[int],
        count: int,
        sampler: Sampler,
        candidate_filter: CandidateFilter,
    ) -> Exported:
        args = {
            "model": model.init_args,
            "obs_dim": model.init_args["obs_dim"],
            "action_dim": model.action_dim,
            "critic_hidden_dims": critic_hidden_dims,
            "sampler": describe(sampler),
            "candidate_filter": describe(candidate_filter),
            "num_samples": count,
        }
        return Exported(path_of(cls), args, "")
