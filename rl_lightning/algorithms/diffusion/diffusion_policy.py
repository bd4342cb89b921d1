"""Diffusion policy (Chi et al. 2023): stretches of demonstrated actions, drawn anew after a few of them were played."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from rl_lightning.algorithms.ema_module import EMAModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.errors import ConfigError
from rl_lightning.functional.diffusion_samplers import DDIM, Sampler
from rl_lightning.functional.noise_schedules import CosineBetaSchedule, NoiseSchedule
from rl_lightning.models.diffusion.action_diffusion import sample_timestep
from rl_lightning.models.diffusion.chunk_diffusion import ChunkDiffusion
from rl_lightning.nn.cnn import CNN
from rl_lightning.nn.denoisers.row_denoisers import DenoiserFactory, MLPDenoiser
from rl_lightning.nn.multi_input import MultiInput
from rl_lightning.nn.torso import Network
from rl_lightning.optim.optimizers import AdamW, OptimizerFactory
from rl_lightning.optim.schedules import Schedule
from rl_lightning.ranges import FractionBelowOne, NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import ActionWindows, Carry, EnvSpec


class DiffusionPolicy(EMAModule):
    """Clones stretches of actions; keeps several ways of doing a thing apart, where a mean would lie between them.

    Args:
        spec: What the data are like; filled in from them.
        denoiser: The network: MLPDenoiser, UNetDenoiser, TransformerDenoiser, or a module of your own.
        obs_encoder: What makes features of a picture; null: three convolutions. Flat observations need none.
        noise_schedule: How noise grows; null: 100 steps of a squared cosine.
        sampler: How actions are drawn; null: DDIM with 10 evaluations. Can be changed after training.
        n_obs_steps: Observations that are seen; as in the data.
        horizon: Actions of a stretch; as in the data.
        n_action_steps: Actions played before the next stretch is drawn; as in the data.
        clip_denoised: Bound of each guess of the clean actions while sampling, which lie in [-1, 1]; null: none.
        lr: Learning rate.
        lr_schedule: How the learning rate changes over the run (the paper: Warmup, then Cosine); null: it does not.
        optimizer: The optimizer, without its learning rate; null: AdamW with betas 0.95, 0.999, weight decay 1e-6.
        max_grad_norm: Gradients are scaled down to this norm; null never.
        ema_decay: Largest fraction of itself that the running average of the weights keeps at each update; it is
            what is played. 0: the newest weights.
        ema_power: Lets the average begin as a copy: its decay is 1 - (1 + updates)^-power until it reaches `ema_decay`.
    """

    learns_from = (ActionWindows,)
    takes_pictures_beside_vectors = True
    needs_columns = ()
    action_kinds = ("continuous",)

    def __init__(
        self,
        spec: EnvSpec,
        denoiser: DenoiserFactory = MLPDenoiser,
        obs_encoder: Network | None = None,
        noise_schedule: NoiseSchedule | None = None,
        sampler: Sampler | None = None,
        n_obs_steps: PositiveInt = 2,
        horizon: PositiveInt = 8,
        n_action_steps: PositiveInt = 4,
        clip_denoised: PositiveFloat | None = 1.0,
        lr: NonNegativeFloat = 3e-4,
        lr_schedule: Schedule | None = None,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
        ema_decay: FractionBelowOne = 0.995,
        ema_power: float | None = 0.75,
    ) -> None:
        optimizer = optimizer or partial(AdamW, betas=(0.95, 0.999), weight_decay=1e-6)
        super().__init__(spec, lr, lr_schedule, optimizer, max_grad_norm, ema_decay, ema_power)
        if min(n_obs_steps, n_action_steps) < 1 or n_obs_steps - 1 + n_action_steps > horizon:
            least = f"n_obs_steps - 1 + n_action_steps = {n_obs_steps - 1 + n_action_steps}"
            raise ConfigError(f"model.horizon is {horizon}; it must hold {least} actions")
        self.n_obs_steps, self.horizon, self.n_action_steps = n_obs_steps, horizon, n_action_steps
        self.clip_denoised = clip_denoised
        noise = noise_schedule or CosineBetaSchedule()
        self.solver_steps = (sampler or DDIM()).solver_steps(noise)
        if obs_encoder is None and len(spec.obs_shape) == 3:
            obs_encoder = partial(
                CNN, channels=[16, 32, 32], kernel_sizes=[5, 3, 3], strides=[2, 2, 1], hidden_dim=64
            )
        if obs_encoder is None and spec.is_bytes:
            obs_encoder = MultiInput
        self.average_of(
            ChunkDiffusion(
                spec.obs_layout, spec.action_dim, n_obs_steps, horizon, denoiser, noise, obs_encoder
            )
        )

    def on_fit_start(self) -> None:
        if not self.model.fitted:  # a resumed run has its ranges from the checkpoint
            rows = self.data_source.train_rows()
            for model in (self.model, self.average):
                model.fit(rows.obs, rows.action)

    def initial_carry(self, count: int) -> Carry:
        """Per env: the last observations, whether there are any, the actions still to be played, and how many."""
        sizes = (
            self.n_obs_steps * math.prod(self.spec.obs_shape),
            1,
            self.n_action_steps * self.spec.action_dim,
            1,
        )
        return tuple(torch.zeros(count, size, device=self.device) for size in sizes)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        draw = generator if generator is not None else torch.default_generator
        history, began, chunk, left = carry
        row = obs.float().flatten(1)
        past = torch.cat((history[:, row.shape[1] :], row), -1)
        history = torch.where(
            began > 0, past, row.repeat(1, self.n_obs_steps)
        )  # an episode begins with its first row
        actions = self._refill(
            chunk.reshape(-1, self.n_action_steps, self.spec.action_dim),
            left == 0,
            history.to(obs.dtype),
            draw,
        )
        left = torch.where(left == 0, float(self.n_action_steps), left)
        now = self.n_action_steps - left[:, 0].long()
        action = actions.gather(1, now[:, None, None].expand(-1, 1, actions.shape[-1]))[:, 0]
        return action.clamp(-1.0, 1.0), (history, torch.ones_like(began), actions.flatten(1), left - 1.0)

    def _refill(self, actions: Tensor, empty: Tensor, history: Tensor, generator: torch.Generator) -> Tensor:
        """The actions to play, drawn anew in the rows that have none left.  [N, S, A], [N, 1] -> [N, S, A]"""
        if torch.jit.is_tracing():  # an exported graph has no branches: it draws for every row and chooses
            return torch.where(empty.unsqueeze(-1), self._plan(history, generator), actions)
        rows = empty[:, 0].nonzero()[:, 0]
        if not len(rows):
            return actions
        actions = actions.clone()
        actions[rows] = self._plan(history[rows], generator)
        return actions

    def _plan(self, history: Tensor, generator: torch.Generator) -> Tensor:
        """The actions to play next: the first belongs to the newest observation.  [N, T * O] -> [N, n_action_steps,
        A]"""
        obs = history.reshape(-1, self.n_obs_steps, *self.spec.obs_shape)
        actions = self.average.sample(obs, self.solver_steps, generator, self.clip_denoised)
        return actions[:, self.n_obs_steps - 1 : self.n_obs_steps - 1 + self.n_action_steps]

    def update(self, batch: ActionWindows) -> Metrics:
        share = sample_timestep(batch.action, 1.0)
        loss = self.model.loss(batch.obs, batch.action, share, torch.randn_like(batch.action))
        return self.learn(loss)
