"""How a world model shows observations again."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symexp, symlog
from rl_lightning.models.rssm.encoders import ImageNorm, check_image
from rl_lightning.nn.dense import DenseStack
from rl_lightning.nn.init import check_sizes, make_activation
from rl_lightning.nn.torso import as_float
from rl_lightning.ranges import PositiveInt


class ObservationDecoder(nn.Module):
    """Features [..., F] back to observations."""

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        """Summed over an observation's own dimensions.  [..., F], [..., *O] -> [...]"""
        raise NotImplementedError

    def predict(self, feature: Tensor) -> Tensor:
        """What the observation should be, in its own units; pixels in [0, 1]."""
        raise NotImplementedError

    def comparable(self, obs: Tensor) -> Tensor:
        """The observation as `predict` gives it."""
        return as_float(obs)


# Makes a decoder of features of this width, so many of which are the deterministic state, to observations of a shape
# or of parts.
DecoderFactory = Callable[[int, int, Any], ObservationDecoder]


class MLPDecoder(ObservationDecoder):
    """Dense layers to a flat observation.

    Args:
        hidden_dims: Width of each layer.
        symlog: Predict squashed observations (Dreamer v3).
        loss_coef: Of the squared error (0.5 is a Gaussian's likelihood, v3 has 1).
        norm: layer, rms or none.
        activation: Of each layer.
    """

    def __init__(
        self,
        feature_dim: int,
        deter: int,
        obs_shape: tuple[int, ...],
        /,
        hidden_dims: list[PositiveInt] = [64, 64],  # noqa: B006
        symlog: bool = False,
        loss_coef: float = 0.5,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        super().__init__()
        self.obs_shape, self.squash, self.loss_coef = obs_shape, symlog, loss_coef
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        self.net = DenseStack(feature_dim, hidden_dims, math.prod(obs_shape), norm, activation)

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        target = as_float(obs).flatten(obs.dim() - len(self.obs_shape))
        target = symlog(target) if self.squash else target
        return self.loss_coef * (self.net(feature) - target).square().sum(-1)

    def predict(self, feature: Tensor) -> Tensor:
        flat = self.net(feature)
        return (symexp(flat) if self.squash else flat).unflatten(-1, self.obs_shape)


class IdentityDecoder(ObservationDecoder):
    """The first numbers of the stochastic state are the observation; it needs a Gaussian latent as wide at least.

    Args:
        loss_coef: Of the squared error.
    """

    def __init__(
        self, feature_dim: int, deter: int, obs_shape: tuple[int, ...], /, loss_coef: float = 0.5
    ) -> None:
        super().__init__()
        self.deter, self.obs_shape, self.loss_coef = deter, obs_shape, loss_coef
        if feature_dim - deter < math.prod(obs_shape):
            raise ConfigError(
                f"IdentityDecoder reads {math.prod(obs_shape)} numbers from a latent of {feature_dim - deter}; "
                "use a GaussianLatent as wide as the observation, or MLPDecoder"
            )

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        error = self.predict(feature) - as_float(obs)
        return self.loss_coef * error.square().flatten(obs.dim() - len(self.obs_shape)).sum(-1)

    def predict(self, feature: Tensor) -> Tensor:
        flat_obs = feature[..., self.deter : self.deter + math.prod(self.obs_shape)]
        return flat_obs.unflatten(-1, self.obs_shape)


class ConvDecoder(ObservationDecoder):
    """Transposed convolutions of stride 2, each doubling the image.

    Args:
        depth: Channels of the last but one; the others are multiples of it.
        multipliers: Channels before each convolution but the first, as multiples of `depth`, from the smallest map.
        sigmoid: Pixels are squashed into [0, 1] (Dreamer v3).
        loss_coef: Of the squared error, summed over all pixels (0.5 is a Gaussian's likelihood, v3 has 1).
        norm: Normalise channels after each: layer or none.
        activation: After each but the last.
    """

    def __init__(
        self,
        feature_dim: int,
        deter: int,
        obs_shape: tuple[int, ...],
        /,
        depth: PositiveInt = 32,
        multipliers: list[int] = [8, 4, 2, 1],  # noqa: B006
        sigmoid: bool = False,
        loss_coef: float = 0.5,
        norm: str = "none",
        activation: str = "relu",
    ) -> None:
        super().__init__()
        side = check_image(obs_shape, len(check_sizes("multipliers", multipliers)))
        channels = [*(depth * m for m in multipliers), obs_shape[0]]
        self.loss_coef, self.sigmoid, self.start = loss_coef, sigmoid, (channels[0], side, side)
        self.linear = nn.Linear(feature_dim, math.prod(self.start))
        layers: list[nn.Module] = []
        for k, (source, target) in enumerate(pairwise(channels)):
            layers.append(nn.ConvTranspose2d(source, target, 4, 2, 1))
            if k < len(channels) - 2:
                layers += [ImageNorm(target)] if norm != "none" else []
                layers.append(make_activation(activation))
        self.net = nn.Sequential(*layers)

    def predict(self, feature: Tensor) -> Tensor:
        maps = self.linear(feature.reshape(-1, feature.shape[-1])).unflatten(-1, self.start)
        images = self.net(maps)
        images = images.sigmoid() if self.sigmoid else images + 0.5
        return images.reshape(*feature.shape[:-1], *images.shape[1:])

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        return self.loss_coef * (self.predict(feature) - as_float(obs)).square().sum((-3, -2, -1))
