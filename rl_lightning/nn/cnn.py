"""Convolutional networks for images, channels first."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_lightning.envs.palette import palette
from rl_lightning.errors import ConfigError
from rl_lightning.nn.init import check_sizes, init_weights, make_activation
from rl_lightning.nn.torso import FeedForward, as_float, as_shape

NATURE_SIDE = 36  # the shortest side that NatureCNN's strides leave something of


def _image_size(obs_shape: tuple[int, ...], kernels: list[int], strides: list[int]) -> tuple[int, int]:
    """Height and width after all convolutions, or an error that says which one does not fit."""
    if len(obs_shape) != 3:
        raise ConfigError(
            f"a CNN needs images (channels, height, width), not observations of shape {obs_shape}; use MLP."
        )
    height, width = obs_shape[1:]
    for layer, (kernel, stride) in enumerate(zip(kernels, strides, strict=True), start=1):
        if min(height, width) < kernel:
            raise ConfigError(
                f"convolution {layer} of the CNN has kernel {kernel}, but its input is {height}x{width} "
                f"(observations {obs_shape}); use smaller kernels or strides, or SmallCNN."
            )
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    return height, width


class CNN(FeedForward):
    """Convolutions of your choice, then one fully connected layer.

    Args:
        channels: Output channels of each convolution.
        kernel_sizes: Kernel size of each convolution.
        strides: Stride of each convolution.
        hidden_dim: Width of the fully connected layer after them; 0 leaves it out: the flattened maps are the features.
        activation: Non-linearity after each layer (relu, silu, elu, gelu, ...).
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        channels: list[int] = [32, 64, 64],  # noqa: B006
        kernel_sizes: list[int] = [8, 4, 3],  # noqa: B006
        strides: list[int] = [4, 2, 1],  # noqa: B006
        hidden_dim: int = 512,
        activation: str = "relu",
        init: str = "orthogonal",
    ) -> None:
        super().__init__()
        shape = as_shape(obs_shape)
        check_convolutions(channels, kernel_sizes, strides, hidden_dim)
        height, width = _image_size(shape, kernel_sizes, strides)
        layers: list[nn.Module] = []
        for source, target, kernel, stride in zip(
            [shape[0], *channels], channels, kernel_sizes, strides, strict=False
        ):
            layers += [nn.Conv2d(source, target, kernel, stride), make_activation(activation)]
        self.convolutions = init_weights(nn.Sequential(*layers), init)
        flat = channels[-1] * height * width
        top = [nn.Linear(flat, hidden_dim), make_activation(activation)] if hidden_dim else []
        self.top = init_weights(nn.Sequential(*top), init)
        self.out_dim = hidden_dim or flat

    def forward(self, obs: Tensor) -> Tensor:  # [..., C, H, W] -> [..., F]
        lead = obs.shape[:-3]
        images = as_float(obs.reshape(-1, *obs.shape[-3:]))
        features = torch.flatten(self.convolutions(images), 1)
        return self.top(features).reshape(*lead, self.out_dim)


def check_convolutions(
    channels: list[int], kernel_sizes: list[int], strides: list[int], hidden_dim: int
) -> None:
    if not channels or not len(channels) == len(kernel_sizes) == len(strides):
        raise ConfigError(
            f"channels, kernels and strides of a CNN need one entry per convolution; "
            f"they have {len(channels)}, {len(kernel_sizes)} and {len(strides)}."
        )
    if hidden_dim < 0:
        raise ConfigError(f"hidden_dim must not be negative, not {hidden_dim}.")
    check_sizes("channels", channels)
    check_sizes("kernel_sizes", kernel_sizes)
    check_sizes("strides", strides)


class NatureCNN(CNN):
    """The network of the Nature DQN paper, for images of 36 pixels a side and more.

    Args:
        hidden_dim: Width of the fully connected layer.
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    def __init__(
        self, obs_shape: int | tuple[int, ...], /, hidden_dim: int = 512, init: str = "orthogonal"
    ) -> None:
        super().__init__(obs_shape, [32, 64, 64], [8, 4, 3], [4, 2, 1], hidden_dim, "relu", init)


class SmallCNN(CNN):
    """Two 3x3 convolutions of stride 1, for grids of 5x5 up to about 16x16.

    Args:
        channels: Output channels of the two convolutions.
        hidden_dim: Width of the fully connected layer.
        activation: Non-linearity after each layer (relu, silu, elu, gelu, ...).
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        channels: list[int] = [16, 32],  # noqa: B006
        hidden_dim: int = 128,
        activation: str = "relu",
        init: str = "orthogonal",
    ) -> None:
        ones = [1] * len(channels)
        super().__init__(obs_shape, channels, [3 * one for one in ones], ones, hidden_dim, activation, init)


def network_for_picture(obs_shape: tuple[int, ...]) -> type[CNN]:
    """What sees a picture where nobody says: Nature's CNN, for small grids one of small kernels."""
    return SmallCNN if min(obs_shape[1:]) < NATURE_SIDE else NatureCNN


class PaletteCNN(FeedForward):
    """A CNN for frames whose pixels are indices of colours: each is shown as its RGB, or its grey level, in [0, 1].

    Args:
        gray_levels: Grey level of each index; null: Atari's 128 colours.
        channels: Output channels of each convolution.
        kernel_sizes: Kernel size of each convolution.
        strides: Stride of each convolution.
        hidden_dim: Width of the fully connected layer after them; 0 leaves it out.
        activation: Non-linearity after each layer (relu, silu, elu, gelu, ...).
        init: How weights start: "orthogonal" (gain sqrt 2, zero bias) or "default" (torch's own).
    """

    table: Tensor

    def __init__(
        self,
        obs_shape: int | tuple[int, ...],
        /,
        gray_levels: list[int] | None = None,
        channels: list[int] = [32, 64, 32],  # noqa: B006
        kernel_sizes: list[int] = [8, 4, 3],  # noqa: B006
        strides: list[int] = [4, 2, 1],  # noqa: B006
        hidden_dim: int = 512,
        activation: str = "relu",
        init: str = "orthogonal",
    ) -> None:
        super().__init__()
        frames, *size = as_shape(obs_shape)
        shown = torch.from_numpy(palette(gray_levels)).to(torch.get_default_device()).float() / 255.0
        self.register_buffer(
            "table", shown if gray_levels is None else shown[:, :1].clone(), persistent=False
        )
        planes = (frames * self.table.shape[1], *size)
        self.net = CNN(planes, channels, kernel_sizes, strides, hidden_dim, activation, init)
        self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.out_dim = self.net.out_dim

    def forward(self, obs: Tensor) -> Tensor:  # [..., F, H, W] -> [..., F]
        lead = obs.shape[:-3]
        rows = obs.reshape(-1, *obs.shape[-3:]).permute(0, 2, 3, 1)
        planes = nn.functional.embedding(rows.int(), self.table).flatten(3).permute(0, 3, 1, 2)
        return self.net(planes).reshape(*lead, self.out_dim)
