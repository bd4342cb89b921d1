"""How a world model shows observations again: decoders, as recipes."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn

from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symexp, symlog
from rl_lightning.models.rssm.encoders import ImageNorm, check_image
from rl_lightning.nn.dense import DenseStack
from rl_lightning.nn.init import check_sizes, make_activation
from rl_lightning.nn.torso import as_float


class DecoderRecipe:
    """Base of the recipes that a YAML names under `decoder:`."""

    def build(self, feature_dim: int, deter: int, obs_shape: tuple[int, ...]) -> ObservationDecoder:
        raise TypeError(f"{type(self).__name__} must define build(feature_dim, deter, obs_shape)")


class ObservationDecoder(nn.Module):
    """Features [..., F] back to observations."""

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        """Summed over an observation's own dimensions.  [..., F], [..., *O] -> [...]"""
        raise NotImplementedError

    def predict(self, feature: Tensor) -> Tensor:
        """What the observation should be, in its own units; pixels in [0, 1]."""
        raise NotImplementedError


class MLPDecoder(DecoderRecipe):
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
        hidden_dims: list[int] = [64, 64],  # noqa: B006
        symlog: bool = False,
        loss_coef: float = 0.5,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        self.hidden_dims, self.loss_coef = check_sizes("hidden_dims", hidden_dims), loss_coef
        self.symlog, self.norm, self.activation = symlog, norm, activation

    def build(self, feature_dim: int, deter: int, obs_shape: tuple[int, ...]) -> ObservationDecoder:
        return FlatDecoder(feature_dim, obs_shape, self)


class FlatDecoder(ObservationDecoder):
    """See MLPDecoder."""

    def __init__(self, feature_dim: int, obs_shape: tuple[int, ...], recipe: MLPDecoder) -> None:
        super().__init__()
        self.obs_shape, self.squash, self.weight = obs_shape, recipe.symlog, recipe.loss_coef
        out = math.prod(obs_shape)
        self.net = DenseStack(feature_dim, recipe.hidden_dims, out, recipe.norm, recipe.activation)

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        target = as_float(obs).flatten(obs.dim() - len(self.obs_shape))
        target = symlog(target) if self.squash else target
        return self.weight * (self.net(feature) - target).square().sum(-1)

    def predict(self, feature: Tensor) -> Tensor:
        flat = self.net(feature)
        return (symexp(flat) if self.squash else flat).unflatten(-1, self.obs_shape)


class IdentityDecoder(DecoderRecipe):
    """The first numbers of the stochastic state are the observation; it needs a Gaussian latent as wide at least.

    Args:
        loss_coef: Of the squared error.
    """

    def __init__(self, loss_coef: float = 0.5) -> None:
        self.loss_coef = loss_coef

    def build(self, feature_dim: int, deter: int, obs_shape: tuple[int, ...]) -> ObservationDecoder:
        return IdentityReadout(feature_dim, deter, obs_shape, self.loss_coef)


class IdentityReadout(ObservationDecoder):
    """See IdentityDecoder."""

    def __init__(self, feature_dim: int, deter: int, obs_shape: tuple[int, ...], weight: float) -> None:
        super().__init__()
        self.deter, self.obs_shape, self.weight = deter, obs_shape, weight
        if feature_dim - deter < math.prod(obs_shape):
            raise ConfigError(
                f"IdentityDecoder reads {math.prod(obs_shape)} numbers from a latent of {feature_dim - deter}; "
                "use a GaussianLatent as wide as the observation, or MLPDecoder"
            )

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        error = self.predict(feature) - as_float(obs)
        return self.weight * error.square().flatten(obs.dim() - len(self.obs_shape)).sum(-1)

    def predict(self, feature: Tensor) -> Tensor:
        flat_obs = feature[..., self.deter : self.deter + math.prod(self.obs_shape)]
        return flat_obs.unflatten(-1, self.obs_shape)


class ConvDecoder(DecoderRecipe):
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
        depth: int = 32,
        multipliers: list[int] = [8, 4, 2, 1],  # noqa: B006
        sigmoid: bool = False,
        loss_coef: float = 0.5,
        norm: str = "none",
        activation: str = "relu",
    ) -> None:
        self.depth, self.multipliers = depth, check_sizes("multipliers", multipliers)
        self.sigmoid, self.loss_coef, self.norm, self.activation = sigmoid, loss_coef, norm, activation

    def build(self, feature_dim: int, deter: int, obs_shape: tuple[int, ...]) -> ObservationDecoder:
        return ConvDecoderNet(feature_dim, obs_shape, self)


class ConvDecoderNet(ObservationDecoder):
    """See ConvDecoder."""

    def __init__(self, feature_dim: int, obs_shape: tuple[int, ...], recipe: ConvDecoder) -> None:
        super().__init__()
        side = check_image(obs_shape, len(recipe.multipliers))
        channels = [*(recipe.depth * m for m in recipe.multipliers), obs_shape[0]]
        self.weight, self.sigmoid, self.start = recipe.loss_coef, recipe.sigmoid, (channels[0], side, side)
        self.linear = nn.Linear(feature_dim, math.prod(self.start))
        layers: list[nn.Module] = []
        for k, (source, target) in enumerate(pairwise(channels)):
            layers.append(nn.ConvTranspose2d(source, target, 4, 2, 1))
            if k < len(channels) - 2:
                layers += [ImageNorm(target)] if recipe.norm != "none" else []
                layers.append(make_activation(recipe.activation))
        self.net = nn.Sequential(*layers)

    def predict(self, feature: Tensor) -> Tensor:
        maps = self.linear(feature.reshape(-1, feature.shape[-1])).unflatten(-1, self.start)
        images = self.net(maps)
        images = images.sigmoid() if self.sigmoid else images + 0.5
        return images.reshape(*feature.shape[:-1], *images.shape[1:])

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        return self.weight * (self.predict(feature) - as_float(obs)).square().sum((-3, -2, -1))
