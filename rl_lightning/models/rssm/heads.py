"""Predictions from a latent feature: heads for rewards, values and whether the episode goes on."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symexp, symlog, two_hot_bins, two_hot_loss, two_hot_mean
from rl_lightning.nn.dense import DenseStack
from rl_lightning.nn.init import check_sizes
from rl_lightning.ranges import PositiveInt


class ScalarHead(nn.Module):
    """A number for every feature. `forward` gives raw outputs [..., K]; both others start from them."""

    net: DenseStack

    def forward(self, feature: Tensor) -> Tensor:
        return self.net(feature)

    def mean(self, raw: Tensor) -> Tensor:  # [..., K] -> [...]
        raise NotImplementedError

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:  # [..., K], [...] -> [...]
        raise NotImplementedError

    def value(self, feature: Tensor) -> Tensor:
        return self.mean(self(feature))


# Makes a head for features of this width.
ScalarHeadFactory = Callable[[int], ScalarHead]


class MSEHead(ScalarHead):
    """A Gaussian of variance 1, which is half the squared error (PlaNet, Dreamer v1 and v2).

    Args:
        hidden_dims: Width of each layer.
        norm: layer, rms or none.
        activation: Of each layer.
        zero_init_last: The last layer starts at zero.
    """

    def __init__(
        self,
        feature_dim: int,
        /,
        hidden_dims: list[PositiveInt] = [64, 64],  # noqa: B006
        norm: str = "none",
        activation: str = "elu",
        zero_init_last: bool = False,
    ) -> None:
        super().__init__()
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        self.net = DenseStack(feature_dim, hidden_dims, 1, norm, activation, zero_init_last)

    def mean(self, raw: Tensor) -> Tensor:
        return raw.squeeze(-1)

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:
        return 0.5 * (raw.squeeze(-1) - target).square()


class TwoHotHead(ScalarHead):
    """A distribution over bins, taught the two bins beside the number (Dreamer v3).

    Args:
        hidden_dims: Width of each layer.
        num_bins: Number of bins, odd.
        v_max: The outermost bins lie at plus and minus this, on the symlog scale.
        symexp_bins: Bins lie at symexp of even steps (now); else numbers are squashed first (as first published).
        norm: layer, rms or none.
        activation: Of each layer.
        zero_init_last: The last layer starts at zero, so that the first predictions are exactly 0.
    """

    bins: Tensor

    def __init__(
        self,
        feature_dim: int,
        /,
        hidden_dims: list[PositiveInt] = [64],  # noqa: B006
        num_bins: int = 255,
        v_max: float = 20.0,
        symexp_bins: bool = True,
        norm: str = "rms",
        activation: str = "silu",
        zero_init_last: bool = True,
    ) -> None:
        super().__init__()
        if num_bins < 3 or num_bins % 2 == 0 or v_max <= 0:
            raise ConfigError(
                f"TwoHotHead needs an odd number of bins and a positive limit, not {num_bins}, {v_max}"
            )
        hidden_dims, self.symexp_bins = check_sizes("hidden_dims", hidden_dims), symexp_bins
        self.net = DenseStack(feature_dim, hidden_dims, num_bins, norm, activation, zero_init_last)
        self.register_buffer("bins", two_hot_bins(num_bins, v_max, symexp_bins), persistent=False)

    def mean(self, raw: Tensor) -> Tensor:
        mean = two_hot_mean(raw, self.bins)
        return mean if self.symexp_bins else symexp(mean)

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:
        return two_hot_loss(raw, target if self.symexp_bins else symlog(target), self.bins)


class ContinueHead(nn.Module):
    """The chance that the episode goes on. `continuation` is the discount of going on from a state.

    Args:
        hidden_dims: Width of each layer.
        loss_coef: Of its loss (10 in v1, 5 in v2, 1 in v3).
        discounted: It is taught gamma instead of 1 where the episode goes on, and so predicts the discount itself.
        norm: layer, rms or none.
        activation: Of each layer.
    """

    def __init__(
        self,
        feature_dim: int,
        gamma: float,
        /,
        hidden_dims: list[PositiveInt] = [64],  # noqa: B006
        loss_coef: float = 1.0,
        discounted: bool = True,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        super().__init__()
        self.gamma, self.discounted, self.loss_coef = gamma, discounted, loss_coef
        hidden_dims = check_sizes("hidden_dims", hidden_dims)
        self.net = DenseStack(feature_dim, hidden_dims, 1, norm, activation)

    def continuation(self, feature: Tensor) -> Tensor:
        """Chance that the episode goes on, times gamma: once, whichever way it was taught."""
        chance = self.net(feature).squeeze(-1).sigmoid()
        return chance if self.discounted else self.gamma * chance

    def loss(self, feature: Tensor, terminated: Tensor) -> Tensor:
        target = (1.0 - terminated) * (self.gamma if self.discounted else 1.0)
        logits = self.net(feature).squeeze(-1)
        return self.loss_coef * F.binary_cross_entropy_with_logits(logits, target, reduction="none")


# Makes a head for features of this width, under this discount.
ContinueHeadFactory = Callable[[int, float], ContinueHead]
