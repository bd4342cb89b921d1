"""Diffusion-DICE (Mao et al. 2024): values of the data's own actions, a guide to the better ones, a choice."""

from __future__ import annotations

import copy
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Exported, fingerprint, load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.functional.dice_losses import guide_loss, ratio_of, value_loss
from rl_lightning.functional.diffusion_samplers import DPMSolver, Sampler
from rl_lightning.functional.diffusion_solvers import SolverStep, add_noise
from rl_lightning.functional.value import polyak_update, td_target
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.described import describe
from rl_lightning.models.diffusion.action_diffusion import sample_timestep
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter, MaxFilter
from rl_lightning.models.diffusion.diffusion_policies import (
    GuidedPolicy,
    guided_actions,
    judged,
    path_of,
    picked,
)
from rl_lightning.models.policies import ObsNormalizer, flat_width
from rl_lightning.nn.denoisers.guide_net import GuideNet
from rl_lightning.nn.denoisers.row_denoisers import to_bfloat16
from rl_lightning.nn.heads.critics import QEnsemble
from rl_lightning.nn.mlp import MLP
from rl_lightning.optim.optimizers import AdamW, OptimizerFactory
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.ranges import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiceGuidance(PolicyModule):
    """Critic, guide and guided choice on top of a behaviour diffusion, which stays as it is.

    Args:
        spec: What the data are like; filled in from them.
        behavior: Artifact of a behaviour diffusion.
        alpha: Temperature of the value: towards 0 only the best of the data's actions count.
        dual_value_coef: Weight of the value in its dual; 1 is the original's code, with E[ratio] = 1 at its optimum;
            its text has 1 - gamma.
        gamma: Discount.
        tau: Fraction of the twin critics that the targets take over at each update.
        critic_hidden_dims: Hidden sizes of the critics and of the state value.
        num_selection_critics: Further critics, which only choose among candidates; 0: the target twins choose.
        guide_hidden_dims: Hidden sizes of the guide.
        fourier_scale: Spread of the random frequencies that the guide sees time through; a small one makes it smooth.
        num_noise_samples: Noisy versions of each action that the guide learns from in one update.
        max_ratio: Largest ratio that the guide learns from.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate of the value and the critics.
        guide_lr: Learning rate of the guide; null: as theirs.
        lr_schedule: How the learning rate of value and critics changes over the run, not the guide's; null: it does
            not, as in the original, whose option is Cosine with end 1e-4.
        optimizer: The optimizer of all four, without its learning rate; null: AdamW with weight decay 1e-4.
        max_grad_norm: Gradients of the guide are scaled down to this norm; null never.
        guidance_scale: How far samples follow the guide; 0 is the behaviour itself. Can be changed after training.
        num_samples: Actions drawn for each observation, of which one is played. Can be changed after training.
        candidate_filter: Which of the candidates is played; null: the best. Can be changed after training.
        sampler: How candidates are drawn; null: DPM-Solver++ with 15 evaluations on a quadratic grid. Can be changed
            after training.
        clip_denoised: Bound of each guess of the clean action while sampling; null: none, as in the paper.
        sampling_dtype: Of the networks while candidates are drawn: float32, or bfloat16, which changes samples a
            little.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    deterministic_eval = False

    def __init__(
        self,
        spec: EnvSpec,
        behavior: Artifact,
        alpha: float = 0.5,
        dual_value_coef: PositiveFloat = 1.0,
        gamma: Fraction = 0.99,
        tau: PositiveFraction = 0.005,
        critic_hidden_dims: list[PositiveInt] | None = None,
        num_selection_critics: NonNegativeInt = 0,
        guide_hidden_dims: list[PositiveInt] | None = None,
        fourier_scale: float = 30.0,
        num_noise_samples: PositiveInt = 16,
        max_ratio: PositiveFloat = 100.0,
        normalize_obs: bool = False,
        lr: NonNegativeFloat = 3e-4,
        guide_lr: float | None = None,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        guidance_scale: NonNegativeFloat = 1.0,
        num_samples: PositiveInt = 1,
        candidate_filter: CandidateFilter | None = None,
        sampler: Sampler | None = None,
        clip_denoised: PositiveFloat | None = None,
        sampling_dtype: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        super().__init__(spec)
        if alpha <= 0.0:
            raise ConfigError(f"model.alpha is {alpha}; it must be above 0")
        if sampling_dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"model.sampling_dtype is {sampling_dtype!r}; choose float32 or bfloat16")
        self.behavior_artifact = behavior
        self.alpha, self.dual_value_coef, self.gamma = alpha, dual_value_coef, gamma
        self.tau, self.num_noise_samples, self.max_ratio = tau, num_noise_samples, max_ratio
        self.lr, self.guide_lr, self.lr_schedule = lr, guide_lr or lr, lr_schedule or Constant()
        self.optimizer, self.max_grad_norm = optimizer or partial(AdamW, weight_decay=1e-4), max_grad_norm
        self.guidance_scale, self.num_samples, self.clip_denoised = guidance_scale, num_samples, clip_denoised
        self.candidate_filter, self.sampler, self.sampling_dtype = (
            candidate_filter or MaxFilter(),
            sampler or DPMSolver(),
            sampling_dtype,
        )
        width, hidden = flat_width(spec, "DiceGuidance"), critic_hidden_dims or [256, 256]
        self.norm: nn.Module = ObsNormalizer(width) if normalize_obs else nn.Identity()
        torso = MLP(width, hidden, "relu", layer_norm=True, init="default")
        self.value = nn.Sequential(torso, nn.Linear(torso.out_dim, 1))
        self.q = QEnsemble(2, width, spec.action_dim, hidden)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.selection_q = (
            QEnsemble(num_selection_critics, width, spec.action_dim, hidden)
            if num_selection_critics
            else None
        )
        self.critic_hidden_dims = hidden
        self.guide_args = {"hidden_dims": guide_hidden_dims or [256] * 4, "fourier_scale": fourier_scale}
        self.guide = GuideNet(
            spec.action_dim, width, guide_hidden_dims or [256] * 4, fourier_scale=fourier_scale
        )

    @cached_property
    def behavior(self) -> Any:
        """The frozen diffusion; no part of this module, so that its weights are neither trained nor saved."""
        with torch.random.fork_rng(
            devices=[]
        ):  # weights are drawn before they are read: nobody else shall notice
            return load_exported(self.behavior_artifact, "behavior")

    def borrowed(self) -> dict[str, nn.Module]:
        return {"behavior": self.behavior}

    def setup(self, stage: str) -> None:
        known, wanted = self.behavior.init_args, (self.spec.obs_shape[0], self.spec.action_dim)
        if (known["obs_dim"], known["action_dim"]) != wanted:
            raise ConfigError(
                f"{self.behavior_artifact}: a behaviour of {known['obs_dim']} observations and {known['action_dim']} "
                f"actions; the data have {wanted[0]} and {wanted[1]}"
            )

    @cached_property
    def solver_steps(self) -> list[SolverStep]:
        """The sampler's steps; made when they are first needed, since a policy that only plays is never set up."""
        return self.sampler.solver_steps(self.behavior.noise_schedule)

    def on_fit_start(self) -> None:
        if isinstance(self.norm, ObsNormalizer):
            self.norm.fit_once(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator if generator is not None else torch.default_generator
        action = self.draw_candidates(obs, draw)
        if self.num_samples == 1:
            return action[:, 0], carry
        return picked(action, self.candidate_filter.choose(self.candidate_q(obs, action), draw)), carry

    def draw_candidates(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Guided samples inside the env's bounds.  [B, O] -> [B, K, A]"""
        reduced = self.sampling_dtype == "bfloat16"
        behavior = (self._half_behavior if reduced else self.behavior).to(obs.device)
        return guided_actions(
            behavior,
            to_bfloat16(self.guide) if reduced else self.guide,
            self.norm,
            obs,
            self.num_samples,
            self.solver_steps,
            generator,
            self.clip_denoised,
            self.guidance_scale,
        )

    @cached_property
    def _half_behavior(self) -> Any:
        return to_bfloat16(self.behavior)

    def candidate_q(self, obs: Tensor, action: Tensor) -> Tensor:
        """What critics think of candidates.  [B, O], [B, K, A] -> [E, B, K]"""
        return judged(self.q_target if self.selection_q is None else self.selection_q, self.norm, obs, action)

    def exports(self) -> dict[str, Exported]:
        critic = "q_target" if self.selection_q is None else "selection_q"
        arguments = {
            "behavior": str(Path(self.behavior_artifact).expanduser().resolve()),
            "mark": fingerprint(self.behavior),
            "obs_dim": self.spec.obs_shape[0],
            "action_dim": self.spec.action_dim,
            "guide": self.guide_args,
            "num_critics": getattr(self, critic).ensemble_size,
            "critic_hidden_dims": self.critic_hidden_dims,
            "critic": critic,
            "sampler": describe(self.sampler),
            "candidate_filter": describe(self.candidate_filter),
            "num_samples": self.num_samples,
            "guidance_scale": self.guidance_scale,
            "clip_denoised": self.clip_denoised,
            "sampling_dtype": self.sampling_dtype,
            "normalize_obs": isinstance(self.norm, ObsNormalizer),
        }
        return {"policy": Exported(path_of(GuidedPolicy), arguments, "")}

    def update(self, batch: Transitions) -> Metrics:
        value_optimizer, critic_optimizer, *more, guide_optimizer = self.raw_optimizers()
        for optimizer in (value_optimizer, critic_optimizer, *more):
            set_lr(optimizer, self.lr_schedule, self.progress)
        obs, next_obs = self.norm(batch.obs), self.norm(batch.next_obs)
        with torch.no_grad():
            q_data = self.q_target(obs, batch.action).amin(0)
        value = self.value(obs).squeeze(-1)
        dual = value_loss(q_data - value, value, self.alpha, self.dual_value_coef)
        self.step(value_optimizer, dual)

        with torch.no_grad():
            value, next_value = self.value(torch.cat((obs, next_obs))).squeeze(-1).chunk(2)
            target = td_target(batch.reward, next_value, batch.terminated, batch.discount)
        q = self.q(obs, batch.action)
        critic_loss = (q - target).square().mean(-1).sum()
        self.step(critic_optimizer, critic_loss)
        metrics = {"train/value_loss": dual, "train/critic_loss": critic_loss, "train/q_values": q.mean()}
        if self.selection_q is not None:
            ensemble_loss = (self.selection_q(obs, batch.action) - target).square().mean()
            self.step(more[0], ensemble_loss)
            metrics["train/selection_critic_loss"] = ensemble_loss
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)

        with torch.no_grad():
            advantage = self.q_target(obs, batch.action).amin(0) - value
            ratio = ratio_of(advantage / self.alpha).clamp(max=self.max_ratio)
        return (
            metrics
            | self._guide_step(guide_optimizer, obs, batch.action, ratio)
            | {"train/value": value.mean()}
        )

    def _guide_step(self, optimizer: Optimizer, obs: Tensor, action: Tensor, ratio: Tensor) -> Metrics:
        """The guide sees M noisy versions of each action, all at one time."""
        schedule, count = self.behavior.noise_schedule, self.num_noise_samples
        time = schedule.sample_t(sample_timestep(action, 1.0)).unsqueeze(1)
        clean = action.unsqueeze(1).expand(-1, count, -1)
        noisy = add_noise(schedule, clean, time, torch.randn_like(clean))
        g = self.guide(noisy, time, obs.unsqueeze(1))  # [B, M]
        loss = guide_loss(g, ratio.unsqueeze(1).expand_as(g))
        self.step(optimizer, loss, self.max_grad_norm)
        return {
            "train/guide_loss": loss,
            "train/guide_mean": g.mean(),
            "train/guide_min": g.amin(),
            "train/guide_max": g.amax(),
            "train/ratio_mean": ratio.mean(),  # 1 at the value's optimum
            "train/ratio_max": ratio.amax(),
        }

    def configure_optimizers(self) -> list[Optimizer]:
        critics = [net for net in (self.value, self.q, self.selection_q) if net is not None]
        optimizers = [self.optimizer(net.parameters(), self.lr) for net in critics]
        return [*optimizers, self.optimizer(self.guide.parameters(), self.guide_lr)]
