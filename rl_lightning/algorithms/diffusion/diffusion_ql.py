"""Diffusion-QL (Wang et al. 2023): a diffusion policy that clones the data and is led by critics."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.ema_module import ema_rate
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.diffusion_samplers import DDPM, Sampler
from rl_lightning.functional.diffusion_solvers import solve
from rl_lightning.functional.noise_schedules import NoiseSchedule, VPBetaSchedule
from rl_lightning.functional.value import cross_normalized_q_loss, polyak_update, td_target
from rl_lightning.models.diffusion.action_diffusion import ActionDiffusion, sample_timestep
from rl_lightning.models.diffusion.candidate_filters import CandidateFilter, SoftmaxFilter
from rl_lightning.models.diffusion.diffusion_policies import ChosenCandidate, chosen_candidate, judged
from rl_lightning.models.policies import ObsNormalizer, flat_width
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, MLPDenoiser
from rl_lightning.nn.heads.critics import QEnsemble
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import (
    Fraction,
    FractionBelowOne,
    NonNegativeFloat,
    PositiveFloat,
    PositiveFraction,
    PositiveInt,
)
from rl_lightning.types import Carry, EnvSpec, Transitions


class DiffusionQL(PolicyModule):
    """Draws actions as the data have them, and learns to draw those that critics like.

    Args:
        spec: What the data are like; filled in from them.
        denoiser: The network of the policy.
        noise_schedule: How noise grows; null: five steps of the variance-preserving schedule.
        sampler: How actions are drawn, in learning, too; null: each of those steps.
        critic_hidden_dims: Hidden sizes of each critic.
        q_coef: Weight of the critics' term against cloning (eta).
        num_target_samples: Next actions of which each critic's target takes the best; the paper's max_q_backup has 10.
        num_samples: Actions drawn for each observation when acting.
        candidate_filter: Who chooses among them; null: by chance, the more likely the higher the lowest critic.
        tau: Fraction of the critics that the target copies take over at each update.
        gamma: Discount.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate of the policy.
        critic_lr: Learning rate of the critics; null: as the policy.
        optimizer: The optimizer of both, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        ema_decay: Fraction of itself that the running average of the policy keeps each time; next actions are its.
        ema_power: Lets the average begin as a copy: its decay is 1 - (1 + times)^-power until it reaches `ema_decay`.
        ema_every: Updates between two steps of the average.
    """

    learns_from = (Transitions,)
    action_kinds = ("continuous",)
    deterministic_eval = False
    updates: Tensor

    def __init__(
        self,
        spec: EnvSpec,
        denoiser: DenoiserFactory = MLPDenoiser,
        noise_schedule: NoiseSchedule | None = None,
        sampler: Sampler | None = None,
        critic_hidden_dims: list[PositiveInt] | None = None,
        q_coef: NonNegativeFloat = 1.0,
        num_target_samples: PositiveInt = 1,
        num_samples: PositiveInt = 50,
        candidate_filter: CandidateFilter | None = None,
        tau: PositiveFraction = 0.005,
        gamma: Fraction = 0.99,
        normalize_obs: bool = False,
        lr: NonNegativeFloat = 3e-4,
        critic_lr: NonNegativeFloat | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        ema_decay: FractionBelowOne = 0.995,
        ema_power: float | None = 0.75,
        ema_every: PositiveInt = 5,
    ) -> None:
        super().__init__(spec)
        self.q_coef, self.num_target_samples, self.num_samples = q_coef, num_target_samples, num_samples
        self.candidate_filter = candidate_filter or SoftmaxFilter(reduction="min")
        self.tau, self.gamma = tau, gamma
        self.lr, self.critic_lr, self.optimizer = lr, critic_lr or lr, optimizer or Adam
        self.max_grad_norm = max_grad_norm
        self.ema_decay, self.ema_power, self.ema_every = ema_decay, ema_power, ema_every
        noise = noise_schedule or VPBetaSchedule()
        self.sampler = sampler or DDPM()
        self.solver_steps = self.sampler.solver_steps(noise)
        width, self.critic_hidden_dims = flat_width(spec, "DiffusionQL"), critic_hidden_dims or [256] * 3
        self.model = ActionDiffusion.of(width, spec.action_dim, denoiser, noise, normalize_obs)
        self.average = copy.deepcopy(self.model).requires_grad_(False)
        self.q = QEnsemble(2, width, spec.action_dim, self.critic_hidden_dims, "mish")
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.register_buffer("updates", torch.zeros((), dtype=torch.int64))

    def on_fit_start(self) -> None:
        for model in (self.model, self.average):
            if isinstance(model.norm, ObsNormalizer):
                model.norm.fit_once(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator if generator is not None else torch.default_generator
        how = (self.num_samples, self.solver_steps, self.candidate_filter)
        return chosen_candidate(self.model, self.q_target, obs, *how, draw), carry

    def sample(self, model: ActionDiffusion, obs: Tensor, count: int) -> Tensor:
        """Actions by the whole chain, differentiable.  [B, O] -> [B, K, A]"""
        start = torch.randn(len(obs), count, self.spec.action_dim, device=obs.device, dtype=obs.dtype)
        return solve(model.eps_fn(obs), start, self.solver_steps, 1.0, torch.randn_like).clamp(-1.0, 1.0)

    def update(self, batch: Transitions) -> Metrics:
        q = self.q(self.model.norm(batch.obs), batch.action)  # [E, B]
        loss = (batch.weight * (q - self._target(batch)).square()).mean(-1).sum()
        self.step(self.raw_optimizers()[1], loss, self.max_grad_norm)
        metrics = {"train/critic_loss": loss.detach(), "train/q_values": q.detach().mean()}
        metrics |= self._actor_step(batch)
        self.updates += 1
        self._update_targets()
        return metrics

    @torch.no_grad()
    def _target(self, batch: Transitions) -> Tensor:
        next_action = self.sample(self.average, batch.next_obs, self.num_target_samples)
        q = judged(self.q_target, self.model.norm, batch.next_obs, next_action)  # [E, B, K]
        return td_target(batch.reward, q.amax(-1).amin(0), batch.terminated, batch.discount)

    def _actor_step(self, batch: Transitions) -> Metrics:
        share, noise = sample_timestep(batch.action, 1.0), torch.randn_like(batch.action)
        clone = self.model.loss(batch.obs, batch.action, share, noise) / self.spec.action_dim
        action = self.sample(self.model, batch.obs, 1)[:, 0]
        q = self.q(self.model.norm(batch.obs), action)
        q_loss = cross_normalized_q_loss(q, first=int(torch.randint(2, ())))
        loss = clone + self.q_coef * q_loss
        self.step(self.raw_optimizers()[0], loss, self.max_grad_norm)
        return {"train/actor_loss": loss.detach(), "train/bc_loss": clone.detach()}

    def _update_targets(self) -> None:
        polyak_update(list(self.q_target.parameters()), list(self.q.parameters()), self.tau)
        times, rest = divmod(int(self.updates), self.ema_every)
        if rest == 0:
            rate = ema_rate(times, self.ema_decay, self.ema_power)
            polyak_update(list(self.average.parameters()), list(self.model.parameters()), rate)

    def exports(self) -> dict[str, Exported]:
        how = (self.num_samples, self.sampler, self.candidate_filter)
        return {"policy": ChosenCandidate.export_spec(self.model, self.critic_hidden_dims, *how)}

    def configure_optimizers(self) -> list[Optimizer]:
        build = self.optimizer
        return [build(self.model.parameters(), self.lr), build(self.q.parameters(), self.critic_lr)]
