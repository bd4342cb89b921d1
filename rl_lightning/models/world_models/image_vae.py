"""What World Models see with: a convolutional variational auto-encoder of 64 x 64 pictures."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rl_lightning.errors import ConfigError

SIDE = 64
MULTIPLES = (1, 2, 4, 8)  # channels of the four convolutions, in units of the depth
PIECE = 1000  # frames encoded at once


class Posterior(NamedTuple):
    """Where a frame lies in latent space."""

    mean: Tensor  # [..., Z]
    log_var: Tensor  # [..., Z]

    def sample(self, noise: Tensor) -> Tensor:
        return self.mean + (0.5 * self.log_var).exp() * noise


class ImageVAE(nn.Module):
    """The paper's vision model: four convolutions down to 2 x 2, four transposed ones up. 4,348,547 weights for colour.

    Args:
        channels: Of a frame: 3 colour, 1 grey.
        latent_dim: Size of the code (paper: 32 CarRacing, 64 Doom).
        depth: Channels of the first convolution (paper: 32).
    """

    def __init__(self, channels: int = 3, latent_dim: int = 32, depth: int = 32) -> None:
        super().__init__()
        self.channels, self.latent_dim, self.depth = channels, latent_dim, depth
        sizes = [channels, *(depth * m for m in MULTIPLES)]
        convs = [nn.Conv2d(a, b, 4, 2) for a, b in pairwise(sizes)]
        self.encoder = nn.Sequential(*(part for conv in convs for part in (conv, nn.ReLU())), nn.Flatten())
        self.width = 4 * sizes[-1]
        self.mean = nn.Linear(self.width, latent_dim)
        self.log_var = nn.Linear(self.width, latent_dim)
        self.unfold = nn.Linear(latent_dim, self.width)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(self.width, 4 * depth, 5, 2), nn.ReLU(),
            nn.ConvTranspose2d(4 * depth, 2 * depth, 5, 2), nn.ReLU(),
            nn.ConvTranspose2d(2 * depth, depth, 6, 2), nn.ReLU(),
            nn.ConvTranspose2d(depth, channels, 6, 2), nn.Sigmoid(),
        )  # fmt: skip

        self._begin()

    def _begin(self) -> None:
        """Signals keep their size through both halves. With torch's own start they fade in the decoder, and the code is
        not looked at for thousands of updates."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                inputs = layer.in_channels * layer.kernel_size[0] ** 2
                if isinstance(layer, nn.ConvTranspose2d):  # taps that meet in one pixel
                    inputs = inputs // layer.stride[0] ** 2 if layer.in_channels != self.width else self.width
                nn.init.normal_(layer.weight, std=math.sqrt(2.0 / inputs))
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        for linear, inputs in ((self.mean, self.width), (self.unfold, self.latent_dim)):
            nn.init.normal_(linear.weight, std=math.sqrt(1.0 / inputs))
            nn.init.zeros_(linear.bias)
        nn.init.zeros_(self.log_var.weight)
        nn.init.constant_(self.log_var.bias, -2.0)

    def init_args(self) -> dict[str, Any]:
        """What makes the same empty model again."""
        return {"channels": self.channels, "latent_dim": self.latent_dim, "depth": self.depth}

    def forward(self, frames: Tensor) -> Posterior:
        """Where frames lie; bytes are scaled to [0, 1] here and nowhere else.  [B, C, 64, 64] -> [B, Z] twice"""
        if frames.dtype == torch.uint8:
            frames = frames.to(self.mean.weight.dtype) / 255.0
        features = self.encoder(frames)
        return Posterior(self.mean(features), self.log_var(features))

    def decode(self, code: Tensor) -> Tensor:  # [B, Z] -> [B, C, 64, 64] in [0, 1]
        return self.decoder(self.unfold(code)[:, :, None, None])

    @torch.no_grad()
    def encode_all(self, frames: Tensor) -> Posterior:
        """The same for any number of frames, in pieces, on the CPU side of memory."""
        device = self.mean.weight.device
        parts = [self(piece.to(device)) for piece in frames.split(PIECE)]
        return Posterior(*(torch.cat([part[k].cpu() for part in parts]) for k in (0, 1)))


def check_frames(obs_shape: tuple[int, ...], obs_dtype: str, who: str) -> int:
    """The channels of 64 x 64 frames of bytes; anything else is refused."""
    if obs_dtype != "uint8" or len(obs_shape) != 3 or obs_shape[1:] != (SIDE, SIDE):
        raise ConfigError(
            f"{who} sees frames of {SIDE} x {SIDE} bytes, not {obs_dtype} {list(obs_shape)}. "
            f"Add --config env/image to the config, or use an env of that size"
        )
    return obs_shape[0]
