"""Diffusion-DICE (Mao et al. 2024): values of the data's own actions, a guide to the better ones, a choice."""

from __future__ import annotations

import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.algorithms.step import set_lr
from rl_lightning.artifacts import Provided, fingerprint, load_provided
from rl_lightning.errors import ConfigError
from rl_lightning.functional.dice_losses import guide_loss, ratio_of, value_loss
from rl_lightning.functional.diffusion_samplers import DPMSolver, Sampler
from rl_lightning.functional.diffusion_solvers import Move, noised
from rl_lightning.functional.value import polyak_, td_target
from rl_lightning.models.diffusion.action_diffusion import drawn_share
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter, MaxFilter
from rl_lightning.models.diffusion.diffusion_policies import (
    GuidedPolicy,
    guided_actions,
    judged,
    path_of,
    picked,
)
from rl_lightning.models.policies import ObsScale, flat_width
from rl_lightning.models.recipe_specs import written
from rl_lightning.nn.denoisers.guide_net import GuideNet
from rl_lightning.nn.denoisers.row_denoisers import halved
from rl_lightning.nn.heads.critics import QEnsemble
from rl_lightning.nn.mlp import MLPNet
from rl_lightning.optim.optimizers import AdamW, OptimizerRecipe
from rl_lightning.optim.schedules import Constant, Schedule
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiceGuidance(PolicyModule):
    """Critic, guide and guided choice on top of a behaviour diffusion, which stays as it is.

    Args:
        spec: What the data are like; filled in from them.
        behavior: Product of a behaviour diffusion.
        alpha: Temperature of the value: towards 0 only the best of the data's actions count.
        value_weight: Weight of the value in its dual; 1 is the original's code, with E[ratio] = 1 at its optimum; its
            text has 1 - gamma.
        gamma: Discount.
        target_rate: Share of the twin critics that the slow ones take over at each update.
        critic_hidden: Hidden sizes of the critics and of the state value.
        ensemble: Further critics, which only choose among candidates; 0: the slow twins choose.
        guide_hidden: Hidden sizes of the guide.
        time_scale: Spread of the random frequencies that the guide sees time through; a small one makes it smooth.
        noise_draws: Noisy versions of each action that the guide learns from in one update.
        ratio_limit: Largest ratio that the guide learns from.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate of the value and the critics.
        guide_lr: Learning rate of the guide; null: as theirs.
        lr_schedule: How the learning rate of value and critics changes over the run, not the guide's; null: it does
            not, as in the original, whose option is Cosine with end 1e-4.
        optimizer: The optimizer of all four, without its rate; null: AdamW with weight decay 1e-4.
        max_grad_norm: Gradients of the guide are scaled down to this norm; null never.
        guidance_scale: How far samples follow the guide; 0 is the behaviour itself. Can be changed after training.
        candidates: Actions drawn for each observation, of which one is played. Can be changed after training.
        filter: Which of the candidates is played; null: the best. Can be changed after training.
        sampler: How candidates are drawn; null: DPM-Solver++ with 15 evaluations on a quadratic grid. Can be changed
            after training.
        clip_guess: Bound of each guess of the clean action while sampling; null: none, as in the paper.
        precision: Of the networks while candidates are drawn: full, or half (bf16), which changes samples a little.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    explores_in_evaluation = True

    def __init__(
        self,
        spec: EnvSpec,
        behavior: str,
        alpha: float = 0.5,
        value_weight: float = 1.0,
        gamma: float = 0.99,
        target_rate: float = 0.005,
        critic_hidden: list[int] | None = None,
        ensemble: int = 0,
        guide_hidden: list[int] | None = None,
        time_scale: float = 30.0,
        noise_draws: int = 16,
        ratio_limit: float = 100.0,
        normalize_obs: bool = False,
        lr: float = 3e-4,
        guide_lr: float | None = None,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerRecipe | None = None,
        max_grad_norm: float | None = None,
        guidance_scale: float = 1.0,
        candidates: int = 1,
        filter: CandidateFilter | None = None,
        sampler: Sampler | None = None,
        clip_guess: float | None = None,
        precision: Literal["full", "half"] = "full",
    ) -> None:
        super().__init__(spec)
        counts = {"noise_draws": noise_draws, "candidates": candidates}
        for key, value in counts.items():
            if value < 1:
                raise ConfigError(f"model.{key} is {value}; it must be at least 1")
        if alpha <= 0.0 or ratio_limit <= 0.0 or value_weight <= 0.0:
            raise ConfigError("model.alpha, model.value_weight and model.ratio_limit must be above 0")
        if guidance_scale < 0.0 or ensemble < 0:
            raise ConfigError("model.guidance_scale and model.ensemble must not be negative")
        self.behavior_product = behavior
        self.alpha, self.value_weight, self.gamma = alpha, value_weight, gamma
        self.target_rate, self.noise_draws, self.ratio_limit = target_rate, noise_draws, ratio_limit
        self.lr, self.guide_lr, self.lr_schedule = lr, guide_lr or lr, lr_schedule or Constant()
        self.optimizer, self.max_grad_norm = optimizer or AdamW(weight_decay=1e-4), max_grad_norm
        self.guidance_scale, self.candidates, self.clip_guess = guidance_scale, candidates, clip_guess
        self.filter, self.sampler, self.precision = filter or MaxFilter(), sampler or DPMSolver(), precision
        width, hidden = flat_width(spec, "DiceGuidance"), critic_hidden or [256, 256]
        self.norm: nn.Module = ObsScale(width) if normalize_obs else nn.Identity()
        torso = MLPNet((width,), hidden, "relu", layer_norm=True, init="default")
        self.value = nn.Sequential(torso, nn.Linear(torso.out_dim, 1))
        self.q = QEnsemble(2, width, spec.action_dim, hidden)
        self.q_slow = copy.deepcopy(self.q).requires_grad_(False)
        self.q_more = QEnsemble(ensemble, width, spec.action_dim, hidden) if ensemble else None
        self.critic_hidden = hidden
        self.guide_args = {"hidden": guide_hidden or [256] * 4, "scale": time_scale}
        self.guide = GuideNet(spec.action_dim, width, guide_hidden or [256] * 4, scale=time_scale)

    @cached_property
    def behavior(self) -> Any:
        """The frozen diffusion; no part of this module, so that its weights are neither trained nor saved."""
        with torch.random.fork_rng(
            devices=[]
        ):  # weights are drawn before they are read: nobody else shall notice
            return load_provided(self.behavior_product, "behavior")

    def borrowed(self) -> dict[str, nn.Module]:
        return {"behavior": self.behavior}

    def setup(self, stage: str) -> None:
        known, wanted = self.behavior.init_args, (self.spec.obs_shape[0], self.spec.action_dim)
        if (known["obs_dim"], known["action_dim"]) != wanted:
            raise ConfigError(
                f"{self.behavior_product}: a behaviour of {known['obs_dim']} observations and {known['action_dim']} "
                f"actions; the data have {wanted[0]} and {wanted[1]}"
            )

    @cached_property
    def moves(self) -> list[Move]:
        """The sampler's steps; made when they are first needed, since a policy that only plays is never set up."""
        return self.sampler.moves(self.behavior.schedule)

    def on_fit_start(self) -> None:
        if isinstance(self.norm, ObsScale):
            self.norm.fit_once(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = explore if explore is not None else torch.default_generator
        action = self.draw_candidates(obs, draw)
        if self.candidates == 1:
            return action[:, 0], carry
        return picked(action, self.filter.choose(self.judge(obs, action), draw)), carry

    def draw_candidates(self, obs: Tensor, generator: torch.Generator) -> Tensor:
        """Guided samples inside the env's bounds.  [B, O] -> [B, K, A]"""
        half = self.precision == "half"
        behavior = (self._half_behavior if half else self.behavior).to(obs.device)
        return guided_actions(
            behavior, halved(self.guide) if half else self.guide, self.norm, obs, self.candidates, self.moves,
            generator, self.clip_guess, self.guidance_scale,
        )  # fmt: skip

    @cached_property
    def _half_behavior(self) -> Any:
        return halved(self.behavior)

    def judge(self, obs: Tensor, action: Tensor) -> Tensor:
        """What critics think of candidates.  [B, O], [B, K, A] -> [E, B, K]"""
        return judged(self.q_slow if self.q_more is None else self.q_more, self.norm, obs, action)

    def provides(self) -> dict[str, Provided]:
        critic = "q_slow" if self.q_more is None else "q_more"
        arguments = {
            "behavior": str(Path(self.behavior_product).expanduser().resolve()), "mark": fingerprint(self.behavior),
            "obs_dim": self.spec.obs_shape[0], "action_dim": self.spec.action_dim, "guide": self.guide_args,
            "critics": getattr(self, critic).members, "critic_hidden": self.critic_hidden, "critic": critic,
            "sampler": written(self.sampler), "filter": written(self.filter), "candidates": self.candidates,
            "scale": self.guidance_scale, "clip": self.clip_guess, "half": self.precision == "half",
            "normalize_obs": isinstance(self.norm, ObsScale),
        }  # fmt: skip
        return {"policy": Provided(path_of(GuidedPolicy), arguments, "")}

    def update(self, batch: Transitions) -> Metrics:
        value_optimizer, critic_optimizer, *more, guide_optimizer = self.raw_optimizers()
        for optimizer in (value_optimizer, critic_optimizer, *more):
            set_lr(optimizer, self.lr_schedule, self.progress)
        obs, next_obs = self.norm(batch.obs), self.norm(batch.next_obs)
        with torch.no_grad():
            q_data = self.q_slow(obs, batch.action).amin(0)
        value = self.value(obs).squeeze(-1)
        dual = value_loss(q_data - value, value, self.alpha, self.value_weight)
        self.step(value_optimizer, dual)

        with torch.no_grad():
            value, next_value = self.value(torch.cat((obs, next_obs))).squeeze(-1).chunk(2)
            target = td_target(batch.reward, next_value, batch.terminated, batch.discount)
        q = self.q(obs, batch.action)
        critic_loss = (q - target).square().mean(-1).sum()
        self.step(critic_optimizer, critic_loss)
        metrics = {"train/value_loss": dual, "train/critic_loss": critic_loss, "train/q": q.mean()}
        if self.q_more is not None:
            ensemble_loss = (self.q_more(obs, batch.action) - target).square().mean()
            self.step(more[0], ensemble_loss)
            metrics["train/ensemble_loss"] = ensemble_loss
        polyak_(list(self.q_slow.parameters()), list(self.q.parameters()), self.target_rate)

        with torch.no_grad():
            advantage = self.q_slow(obs, batch.action).amin(0) - value
            ratio = ratio_of(advantage / self.alpha).clamp(max=self.ratio_limit)
        return (
            metrics
            | self._guide_step(guide_optimizer, obs, batch.action, ratio)
            | {"train/value": value.mean()}
        )

    def _guide_step(self, optimizer: Optimizer, obs: Tensor, action: Tensor, ratio: Tensor) -> Metrics:
        """The guide sees M noisy versions of each action, all at one time."""
        schedule, count = self.behavior.schedule, self.noise_draws
        time = schedule.draw(drawn_share(action, 1.0)).unsqueeze(1)
        clean = action.unsqueeze(1).expand(-1, count, -1)
        noisy = noised(schedule, clean, time, torch.randn_like(clean))
        g = self.guide(noisy, time, obs.unsqueeze(1))  # [B, M]
        loss = guide_loss(g, ratio.unsqueeze(1).expand_as(g))
        self.step(optimizer, loss, self.max_grad_norm)
        return {
            "train/guide_loss": loss,
            "train/guide": g.mean(),
            "train/guide_low": g.amin(),
            "train/guide_high": g.amax(),
            "train/ratio": ratio.mean(),  # 1 at the value's optimum
            "train/ratio_high": ratio.amax(),
        }

    def configure_optimizers(self) -> list[Optimizer]:
        critics = [net for net in (self.value, self.q, self.q_more) if net is not None]
        found = [self.optimizer.build(net.parameters(), self.lr) for net in critics]
        return [*found, self.optimizer.build(self.guide.parameters(), self.guide_lr)]
