"""How TD-MPC2 sees: dense layers for vectors, convolutions for pictures, both for Dict observations."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from rl_lightning.nn.cnn import CNN
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.multi_input import MultiInput
from rl_lightning.nn.normed_mlp import NormedMLP
from rl_lightning.nn.torso import Network, Shape
from rl_lightning.observations import ObsLayout

# The original's, for pictures of 64 x 64.
CONVOLUTIONS: Network = partial(
    CNN,
    channels=[32, 32, 32, 32],
    kernel_sizes=[7, 5, 3, 3],
    strides=[2, 2, 2, 1],
    hidden_dim=0,
    init="default",
)


class FeatureEncoder(nn.Module):
    """Features of a network, and dense layers from them to the latent."""

    def __init__(
        self, network: Network, obs: Shape, hidden_dims: list[int], latent_dim: int, simnorm_dim: int
    ) -> None:
        super().__init__()
        self.torso = make_feed_forward(network, obs, "encoder")
        self.top = NormedMLP(self.torso.out_dim, hidden_dims, latent_dim, simnorm_dim)

    def forward(self, obs: Tensor) -> Tensor:  # [..., *O] -> [..., Z]
        return self.top(self.torso(obs))


def make_latent_encoder(
    network: Network | None, obs: Shape, hidden_dims: list[int], latent_dim: int, simnorm_dim: int
) -> nn.Module:
    """What makes latents of observations of this shape, or of these parts."""
    if network is None and isinstance(obs, ObsLayout) and obs.has_pictures:
        pictures = {part.name: CONVOLUTIONS for part in obs.parts if part.kind == "picture"}
        network = partial(MultiInput, encoders=pictures)
    if network is None and not isinstance(obs, ObsLayout) and len(obs) == 3:
        return FeatureEncoder(CONVOLUTIONS, obs, [], latent_dim, simnorm_dim)
    if network is not None:
        return FeatureEncoder(network, obs, hidden_dims, latent_dim, simnorm_dim)
    width = obs.width if isinstance(obs, ObsLayout) else obs[0]
    return NormedMLP(width, hidden_dims, latent_dim, simnorm_dim)


def random_shift(images: Tensor, pad: int) -> Tensor:
    """Each picture moved by up to `pad` pixels, its edges repeated (DrQ's augmentation).  [..., C, H, W]"""
    flat = images.reshape(-1, *images.shape[-3:])
    count, _, height, width = flat.shape
    down, right = torch.randint(-pad, pad + 1, (2, count, 1), device=images.device).unbind()
    rows = (torch.arange(height, device=images.device) + down).clamp_(0, height - 1)  # [N, H]
    columns = (torch.arange(width, device=images.device) + right).clamp_(0, width - 1)
    which = torch.arange(count, device=images.device)[:, None, None]
    moved = flat.movedim(1, 3)[which, rows[:, :, None], columns[:, None, :]]  # [N, H, W, C]
    return moved.movedim(3, 1).reshape(images.shape)
