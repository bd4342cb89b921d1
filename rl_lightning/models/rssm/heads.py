"""What a latent feature is worth: heads for rewards, values and whether the episode goes on. Recipes and modules."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional.latent import symexp, symlog, two_hot_bins, two_hot_loss, two_hot_mean
from rl_lightning.nn.dense import DenseStack
from rl_lightning.nn.init import check_sizes


class ScalarRecipe:
    """Base of the recipes that a YAML names under `reward:` and `critic:`."""

    def build(self, feature_dim: int) -> ScalarHead:
        raise TypeError(f"{type(self).__name__} must define build(feature_dim)")


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


class MSEHead(ScalarRecipe):
    """A Gaussian of variance 1, which is half the squared error (PlaNet, Dreamer v1 and v2).

    Args:
        hidden: Width of each layer.
        norm: layer, rms or none.
        activation: Of each layer.
        zero: The last layer starts at zero.
    """

    def __init__(
        self,
        hidden: list[int] = [64, 64],  # noqa: B006
        norm: str = "none",
        activation: str = "elu",
        zero: bool = False,
    ) -> None:
        self.hidden = check_sizes("hidden", hidden)
        self.norm, self.activation, self.zero = norm, activation, zero

    def build(self, feature_dim: int) -> ScalarHead:
        return MSEHeadNet(DenseStack(feature_dim, self.hidden, 1, self.norm, self.activation, self.zero))


class MSEHeadNet(ScalarHead):
    """See MSEHead."""

    def __init__(self, net: DenseStack) -> None:
        super().__init__()
        self.net = net

    def mean(self, raw: Tensor) -> Tensor:
        return raw.squeeze(-1)

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:
        return 0.5 * (raw.squeeze(-1) - target).square()


class TwoHotHead(ScalarRecipe):
    """A distribution over bins, taught the two bins beside the number (Dreamer v3).

    Args:
        hidden: Width of each layer.
        bins: Number of bins, odd.
        limit: The outermost bins lie at plus and minus this, on the symlog scale.
        exponential: Bins lie at symexp of even steps (now); else numbers are squashed first (as first published).
        norm: layer, rms or none.
        activation: Of each layer.
        zero: The last layer starts at zero, so that the first predictions are exactly 0.
    """

    def __init__(
        self,
        hidden: list[int] = [64],  # noqa: B006
        bins: int = 255,
        limit: float = 20.0,
        exponential: bool = True,
        norm: str = "rms",
        activation: str = "silu",
        zero: bool = True,
    ) -> None:
        if bins < 3 or bins % 2 == 0 or limit <= 0:
            raise ConfigError(
                f"TwoHotHead needs an odd number of bins and a positive limit, not {bins}, {limit}"
            )
        self.hidden, self.bins, self.limit, self.exponential = (
            check_sizes("hidden", hidden),
            bins,
            limit,
            exponential,
        )
        self.norm, self.activation, self.zero = norm, activation, zero

    def build(self, feature_dim: int) -> ScalarHead:
        net = DenseStack(feature_dim, self.hidden, self.bins, self.norm, self.activation, self.zero)
        return TwoHotHeadNet(net, two_hot_bins(self.bins, self.limit, self.exponential), self.exponential)


class TwoHotHeadNet(ScalarHead):
    """See TwoHotHead."""

    bins: Tensor

    def __init__(self, net: DenseStack, bins: Tensor, exponential: bool) -> None:
        super().__init__()
        self.net, self.exponential = net, exponential
        self.register_buffer("bins", bins, persistent=False)

    def mean(self, raw: Tensor) -> Tensor:
        found = two_hot_mean(raw, self.bins)
        return found if self.exponential else symexp(found)

    def loss(self, raw: Tensor, target: Tensor) -> Tensor:
        return two_hot_loss(raw, target if self.exponential else symlog(target), self.bins)


class ContinueHead:
    """The chance that the episode goes on.

    Args:
        hidden: Width of each layer.
        weight: Of its loss (10 in v1, 5 in v2, 1 in v3).
        discounted: It is taught gamma instead of 1 where the episode goes on, and so predicts the discount itself.
        norm: layer, rms or none.
        activation: Of each layer.
    """

    def __init__(
        self,
        hidden: list[int] = [64],  # noqa: B006
        weight: float = 1.0,
        discounted: bool = True,
        norm: str = "none",
        activation: str = "elu",
    ) -> None:
        self.hidden, self.weight, self.discounted = check_sizes("hidden", hidden), weight, discounted
        self.norm, self.activation = norm, activation

    def build(self, feature_dim: int, gamma: float) -> ContinueNet:
        net = DenseStack(feature_dim, self.hidden, 1, self.norm, self.activation)
        return ContinueNet(net, gamma, self.discounted, self.weight)


class ContinueNet(nn.Module):
    """See ContinueHead. `live` is the discount of going on from a state."""

    def __init__(self, net: DenseStack, gamma: float, discounted: bool, weight: float) -> None:
        super().__init__()
        self.net, self.gamma, self.discounted, self.weight = net, gamma, discounted, weight

    def live(self, feature: Tensor) -> Tensor:
        """Chance that the episode goes on, times gamma: once, whichever way it was taught."""
        chance = self.net(feature).squeeze(-1).sigmoid()
        return chance if self.discounted else self.gamma * chance

    def loss(self, feature: Tensor, terminated: Tensor) -> Tensor:
        target = (1.0 - terminated) * (self.gamma if self.discounted else 1.0)
        logits = self.net(feature).squeeze(-1)
        return self.weight * F.binary_cross_entropy_with_logits(logits, target, reduction="none")
