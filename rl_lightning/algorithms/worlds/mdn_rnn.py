"""The memory of World Models: an LSTM that foresees the next code as a mixture of Gaussians, with teacher forcing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.optim import Optimizer

from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.rl_module import Metrics
from rl_lightning.artifacts import Exported, load_exported
from rl_lightning.errors import ConfigError
from rl_lightning.io.artifact_place import Artifact
from rl_lightning.models.world_models.vision_memory import VisionMemoryModel, action_input
from rl_lightning.optim.optimizers import Adam, OptimizerFactory
from rl_lightning.ranges import NonNegativeFloat, PositiveFloat, PositiveInt
from rl_lightning.types import EnvSpec, Sequences


class MDNRNN(ModelModule):
    """Learns (code, action) -> next code, reward, end. Every frame is encoded once; its code is drawn anew each time.

    Args:
        spec: What the env is like; filled in from the data.
        vision: Artifact of the VAE stage.
        latent_dim: Size of a code, as in that stage.
        depth: Depth of the auto-encoder, as in that stage.
        hidden_dim: Size of the LSTM.
        num_mixtures: Gaussians of a mixture.
        joint_mixture: One mixture over the whole code; off: one for each of its dimensions (the paper's).
        predict_reward: Foresee rewards.
        predict_termination: Foresee the end.
        termination_coef: Weight of the end in the loss; ends are rare.
        lr: Learning rate.
        optimizer: The optimizer, without its learning rate.
        max_grad_norm: Gradients are scaled down to this norm; null never.
    """

    learns_from = (Sequences,)

    def __init__(
        self,
        spec: EnvSpec,
        vision: Artifact,
        latent_dim: PositiveInt = 32,
        depth: PositiveInt = 32,
        hidden_dim: int = 256,
        num_mixtures: PositiveInt = 5,
        joint_mixture: bool = False,
        predict_reward: bool = True,
        predict_termination: bool = True,
        termination_coef: PositiveFloat = 1.0,
        lr: NonNegativeFloat = 1e-3,
        optimizer: OptimizerFactory | None = None,
        max_grad_norm: PositiveFloat | None = 1.0,
    ) -> None:
        super().__init__(spec)
        self.source, self.termination_coef = vision, termination_coef
        heads = {"predict_reward": predict_reward, "predict_termination": predict_termination}
        self.world = VisionMemoryModel.for_env(
            "MDNRNN", spec, latent_dim, depth, hidden_dim, num_mixtures, joint_mixture=joint_mixture, **heads
        )
        self.world.vision.requires_grad_(False)
        self.lr, self.optimizer, self.max_grad_norm = lr, optimizer or Adam, max_grad_norm

    def setup(self, stage: str) -> None:
        if stage != "fit":
            return
        vision: Any = load_exported(self.source, "vision")
        if vision.init_args() != self.world.vision.init_args():
            raise ConfigError(
                f"{self.source}: an auto-encoder of {vision.init_args()}; this stage has "
                f"{self.world.vision.init_args()}. Set model.latent_dim and model.depth to fit"
            )
        self.world.vision.load_state_dict(vision.state_dict())

    def on_fit_start(self) -> None:
        self.data_source.translate(self.encode)

    def on_test_start(self) -> None:
        self.on_fit_start()

    def on_validation_start(self) -> None:
        self.on_fit_start()

    def encode(self, frames: Tensor) -> Tensor:
        """Mean and standard deviation of each frame's code.  [N, C, 64, 64] -> [N, 2 Z]"""
        posterior = self.world.vision.encode_all(frames)
        return torch.cat((posterior.mean, (0.5 * posterior.log_var).exp()), -1)

    def losses(self, batch: Sequences, noise: Tensor) -> dict[str, Tensor]:
        """Of each step within the window's first episode, a mean over all of them. `noise` [B, L, Z] draws codes."""
        memory = self.world.memory
        mean, std = batch.obs.chunk(2, -1)
        code = mean + std * noise
        action = action_input(batch.action[:, :-1], self.spec)
        hidden, _ = memory.unroll(code[:, :-1], action, memory.initial_carry(len(code)))
        guess = memory.predict(hidden)
        # After another episode has begun nothing counts; up to there a state has seen one episode alone.
        valid = (batch.is_first[:, 1:].long().cumsum(1) == 0).to(code)
        count = valid.sum().clamp(min=1.0)
        losses = {"nll": -(memory.log_prob(guess, code[:, 1:]) * valid).sum() / count}
        if guess.reward is not None:
            losses["reward"] = ((guess.reward - batch.reward[:, 1:]).square() * valid).sum() / count
        if guess.terminated is not None:
            bce = F.binary_cross_entropy_with_logits(
                guess.terminated, batch.terminated[:, 1:], reduction="none"
            )
            losses["terminated"] = (bce * valid).sum() / count
        return losses

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        weighted = losses["nll"] / self.world.memory.latent_dim  # per dimension: as large as the other two
        if "reward" in losses:
            weighted = weighted + losses["reward"]
        return weighted + self.termination_coef * losses["terminated"] if "terminated" in losses else weighted

    def update(self, batch: Sequences) -> Metrics:
        shape = (*batch.obs.shape[:2], self.world.memory.latent_dim)
        losses = self.losses(batch, torch.randn(shape, device=batch.obs.device))
        loss = self.total(losses)
        (optimizer,) = self.raw_optimizers()
        self.step(optimizer, loss, self.max_grad_norm)
        return {"train/loss": loss} | {f"world_model/{name}": value for name, value in losses.items()}

    def validate(self, data: Any) -> dict[str, float]:
        batch = data.val_windows()
        moved = batch._replace(
            **{k: v.to(self.device) for k, v in batch._asdict().items() if torch.is_tensor(v)}
        )
        shape = (*batch.obs.shape[:2], self.world.memory.latent_dim)
        losses = self.losses(moved, torch.zeros(shape, device=self.device))
        named = {f"eval/{name}": float(value) for name, value in losses.items()}
        return {"eval/score": -float(self.total(losses)), **named}

    def exports(self) -> dict[str, Exported]:
        return {"world": self.world.exported("world.")}

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.world.memory.parameters(), self.lr)
