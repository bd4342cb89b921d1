"""The vision of World Models (Ha & Schmidhuber 2018): a variational auto-encoder of single frames."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported
from rl_lightning.functional.mixture import kl_to_standard_normal
from rl_lightning.models.world_models.image_vae import ImageVAE, check_frames
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import EnvSpec, Sequences


class VAE(ModelModule):
    """Squared error summed over pixels, plus KL.

    Args:
        spec: What the env is like; filled in from the data.
        latent_dim: Size of a code.
        depth: Channels of the first convolution; the others have twice, four and eight times as many.
        kl_coef: Weight of the KL.
        free_nats: KL below this costs nothing (the authors' code: half the size of a code).
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
    """

    learns_from = (Sequences,)

    def __init__(
        self,
        spec: EnvSpec,
        latent_dim: PositiveInt = 32,
        depth: PositiveInt = 32,
        kl_coef: NonNegativeFloat = 1.0,
        free_nats: NonNegativeFloat = 0.0,
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = None,
    ) -> None:
        super().__init__(spec)
        self.vision = ImageVAE(check_frames(spec.obs_shape, spec.obs_dtype, "VAE"), latent_dim, depth)
        self.kl_coef, self.free_nats = kl_coef, free_nats
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm

    def loss(self, frames: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Error and KL of each frame, summed over pixels and dimensions.  [B, C, 64, 64] -> [B] twice"""
        posterior = self.vision(frames)
        recon = self.vision.decode(posterior.sample(noise))
        error = (recon - frames.to(recon) / 255.0).square().flatten(1).sum(1)
        return error, kl_to_standard_normal(posterior.mean, posterior.log_var)

    def update(self, batch: Sequences) -> Metrics:
        frames = batch.obs.flatten(0, 1)
        noise = torch.randn(len(frames), self.vision.latent_dim, device=frames.device)
        error, kl = self.loss(frames, noise)
        loss = error.mean() + self.kl_coef * kl.mean().clamp(min=self.free_nats)
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/loss": loss, "train/recon_loss": error.mean(), "train/kl": kl.mean()}

    def validate(self, data: Any) -> dict[str, float]:
        frames = data.val_windows().obs.flatten(0, 1).to(self.device)
        error, kl = self.loss(frames, torch.zeros(len(frames), self.vision.latent_dim, device=self.device))
        metrics = {"eval/recon_loss": float(error.mean()), "eval/kl": float(kl.mean())}
        return {"eval/score": -metrics["eval/recon_loss"] - self.kl_coef * metrics["eval/kl"], **metrics}

    def exports(self) -> dict[str, Exported]:
        path = f"{ImageVAE.__module__}.{ImageVAE.__name__}"
        return {"vision": Exported(path, self.vision.init_args(), "vision.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.vision.parameters(), self.lr)
