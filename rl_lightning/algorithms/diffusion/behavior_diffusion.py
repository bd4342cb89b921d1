"""Behaviour diffusion: the data's actions as a diffusion model. Played as it is, it is diffusion behaviour cloning."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.algorithms.ema_module import EMAModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.diffusion_samplers import DPMSolver, Sampler
from rl_lightning.functional.noise_schedules import NoiseSchedule, VPSchedule
from rl_lightning.models.diffusion.action_diffusion import ActionDiffusion, sample_timestep
from rl_lightning.models.diffusion.diffusion_policies import DiffusionActor
from rl_lightning.models.policies import ObsNormalizer, flat_width
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, ResidualDenoiser
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import FractionBelowOne, NonNegativeFloat, PositiveFloat
from rl_lightning.types import Carry, EnvSpec, Transitions


class BehaviorDiffusion(EMAModule):
    """Learns to draw actions as the data have them.

    Args:
        spec: What the data are like; filled in from them.
        denoiser: The network; the residual one is Diffusion-DICE's.
        noise_schedule: How noise grows; null: variance-preserving in continuous time.
        sampler: How actions are drawn; null: DPM-Solver++ with 15 evaluations on a quadratic grid.
        timestep_power: Training times are drawn as a uniform number to this power: 1 is the paper's, 2 looks more
            often at little noise, where sharp modes are learned.
        clip_denoised: Bound of each guess of the clean action while sampling; null: none, as in the paper.
        normalize_obs: Scale observations by the data's mean and spread, which are part of the model.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run; null: it does not.
        optimizer: The optimizer, without its learning rate; null: Adam.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        ema_decay: Fraction of itself that the running average of the weights keeps at each update; it is what is played
            and handed on. 0: the newest weights.
        ema_power: Lets the average begin as a copy: its decay is 1 - (1 + updates)^-power until it reaches `ema_decay`.
    """

    learns_from = (Transitions,)
    needs_columns = ()
    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        denoiser: DenoiserFactory = ResidualDenoiser,
        noise_schedule: NoiseSchedule | None = None,
        sampler: Sampler | None = None,
        timestep_power: PositiveFloat = 1.0,
        clip_denoised: PositiveFloat | None = None,
        normalize_obs: bool = True,
        lr: NonNegativeFloat = 3e-4,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        ema_decay: FractionBelowOne = 0.999,
        ema_power: float | None = 0.75,
    ) -> None:
        super().__init__(spec, lr, lr_schedule, optimizer or Adam, max_grad_norm, ema_decay, ema_power)
        self.timestep_power, self.clip_denoised = timestep_power, clip_denoised
        noise = noise_schedule or VPSchedule()
        self.sampler = sampler or DPMSolver()
        self.solver_steps = self.sampler.solver_steps(noise)
        width = flat_width(spec, "BehaviorDiffusion")
        self.average_of(ActionDiffusion.of(width, spec.action_dim, denoiser, noise, normalize_obs))

    def on_fit_start(self) -> None:
        for model in (self.model, self.average):
            if isinstance(model.norm, ObsNormalizer):
                model.norm.fit_once(self.data_source)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator if generator is not None else torch.default_generator
        action = self.average.sample(obs, 1, self.solver_steps, draw, self.clip_denoised)[:, 0]
        return action.clamp(-1.0, 1.0), carry

    def update(self, batch: Transitions) -> Metrics:
        share = sample_timestep(batch.action, self.timestep_power)
        loss = self.model.loss(batch.obs, batch.action, share, torch.randn_like(batch.action))
        return self.learn(loss)

    def exports(self) -> dict[str, Exported]:
        played = DiffusionActor.export_spec(self.average, self.sampler, self.clip_denoised, "average.")
        return {"behavior": self.average.exported("average."), "policy": played}
