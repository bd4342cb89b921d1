"""The two halves of a World Model together: what it sees with, and what it remembers and dreams with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.artifacts import Exported
from rl_lightning.models.world_models.image_vae import ImageVAE, check_frames
from rl_lightning.models.world_models.mdn_rnn_net import MDNRNNNet
from rl_lightning.types import Carry, EnvSpec


class VisionMemoryModel(nn.Module):
    """A frozen auto-encoder and the memory that was trained on its codes.

    Args:
        vision: Arguments of the ImageVAE.
        memory: Arguments of the MDNRNNNet.
    """

    def __init__(self, vision: dict[str, Any], memory: dict[str, Any]) -> None:
        super().__init__()
        self.vision, self.memory = ImageVAE(**vision), MDNRNNNet(**memory)

    @classmethod
    def for_env(
        cls,
        who: str,
        spec: EnvSpec,
        latent_dim: int,
        depth: int,
        hidden_dim: int,
        num_mixtures: int,
        **heads: bool,
    ) -> VisionMemoryModel:
        """Of these sizes, for frames of an env; `who` needs them, for errors."""
        channels = check_frames(spec.obs_shape, spec.obs_dtype, who)
        sizes = {"latent_dim": latent_dim, "hidden_dim": hidden_dim, "num_mixtures": num_mixtures}
        return cls(
            {"channels": channels, "latent_dim": latent_dim, "depth": depth},
            {**sizes, "action_dim": spec.action_dim, **heads},
        )

    def exported(self, prefix: str) -> Exported:
        args = {"vision": self.vision.init_args(), "memory": self.memory.init_args()}
        return Exported(f"{type(self).__module__}.{type(self).__name__}", args, prefix)

    def features(self, code: Tensor, carry: Carry, use_cell: bool) -> Tensor:
        """What a controller sees: the code, and the state from before this code was remembered.  -> [B, F]"""
        return torch.cat((code, *carry) if use_cell else (code, carry[0]), -1)

    def feature_width(self, use_cell: bool) -> int:
        return self.memory.latent_dim + self.memory.hidden_dim * (2 if use_cell else 1)


def action_input(action: Tensor, spec: EnvSpec) -> Tensor:
    """Stored actions as the memory hears of them: one-hot where they are discrete.  -> [..., A]"""
    if spec.action_kind == "continuous":
        return action.flatten(-len(spec.action_shape)) if len(spec.action_shape) > 1 else action
    return F.one_hot(action.long(), spec.action_dim).float()
