"""The stochastic part of a latent state, Gaussian or categorical, and how its divergence is taught.."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rl_lightning.errors import ConfigError
from rl_lightning.functional import latent as math
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.kernels.straight_through import straight_through
from rl_lightning.ranges import NonNegativeFloat

Dist = tuple[Tensor, ...]


class Latent:
    """A family of distributions; its parameters are a flat row [..., P], a draw is a flat row [..., Z]."""

    dim: int
    params_dim: int

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """What `sample` needs for rows of this leading shape, for all steps of an unroll at once."""
        raise NotImplementedError

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        """A draw, with a gradient."""
        raise NotImplementedError

    def mode(self, params: Tensor) -> Tensor:
        """The likeliest draw."""
        raise NotImplementedError

    def dist(self, params: Tensor) -> Dist:
        """What `kl` compares, made once of the parameters."""
        raise NotImplementedError

    def kl(self, q: Dist, p: Dist) -> Tensor:  # -> [...]
        raise NotImplementedError

    def entropy(self, params: Tensor) -> Tensor:
        raise NotImplementedError


class GaussianLatent(Latent):
    """Independent Gaussians (PlaNet, Dreamer v1).

    Args:
        stoch: Number of dimensions.
        min_std: Smallest standard deviation.
    """

    def __init__(self, stoch: int = 30, min_std: float = 0.1) -> None:
        if stoch < 1 or min_std <= 0:
            raise ConfigError(
                f"GaussianLatent needs a size of at least 1 and min_std above 0, not {stoch}, {min_std}"
            )
        self.stoch, self.min_std = stoch, min_std
        self.dim, self.params_dim = stoch, 2 * stoch

    def dist(self, params: Tensor) -> Dist:
        mean, raw = params.chunk(2, -1)
        return mean, F.softplus(raw) + self.min_std

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        whole = (*shape, self.dim)
        return (
            like.new_empty(whole).normal_() if generator is None else standard_noise(whole, generator, like)
        )

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        mean, std = self.dist(params)
        return torch.addcmul(mean, std, noise)

    def mode(self, params: Tensor) -> Tensor:
        return params.chunk(2, -1)[0]

    def kl(self, q: Dist, p: Dist) -> Tensor:
        return math.gaussian_kl(q[0], q[1], p[0], p[1])

    def entropy(self, params: Tensor) -> Tensor:
        return 0.5 * torch.log(2.0 * torch.pi * torch.e * self.dist(params)[1].square()).sum(-1)


class CategoricalLatent(Latent):
    """Several categorical variables as one-hot rows, with straight-through gradients (Dreamer v2 and v3).

    Args:
        stoch: Number of variables.
        classes: Classes of each.
        unimix: Fraction of a uniform distribution mixed into each (0.01 in v3, 0 in v2).
    """

    def __init__(self, stoch: int = 32, classes: int = 32, unimix: float = 0.01) -> None:
        if stoch < 1 or classes < 2 or not 0.0 <= unimix < 1.0:
            raise ConfigError(
                f"CategoricalLatent needs variables of at least two classes and unimix in [0, 1), "
                f"not {stoch} x {classes}, {unimix}"
            )
        self.stoch, self.classes, self.unimix = stoch, classes, unimix
        self.shape = (stoch, classes)
        self.dim = self.params_dim = stoch * classes

    def noise(self, shape: tuple[int, ...], like: Tensor, generator: torch.Generator | None = None) -> Tensor:
        whole = (*shape, *self.shape)
        if generator is None:
            return math.gumbel(like.new_empty(whole).exponential_())
        return math.gumbel(torch.empty(whole, device=generator.device).exponential_(generator=generator)).to(
            like
        )

    def sample(self, params: Tensor, noise: Tensor) -> Tensor:
        return straight_through(params.unflatten(-1, self.shape), noise, self.unimix).flatten(-2)

    def mode(self, params: Tensor) -> Tensor:
        return straight_through(params.unflatten(-1, self.shape), 0.0, self.unimix).flatten(-2)

    def log_probs(self, params: Tensor) -> Tensor:
        return math.unimix(params.unflatten(-1, self.shape), self.unimix)

    def dist(self, params: Tensor) -> Dist:
        return (self.log_probs(params),)

    def kl(self, q: Dist, p: Dist) -> Tensor:
        return math.categorical_kl(q[0], p[0])

    def entropy(self, params: Tensor) -> Tensor:
        log_probs = self.log_probs(params)
        return -(log_probs.exp() * log_probs).sum((-2, -1))


class KLLoss:
    """Base of what stands under `kl:`."""

    def __call__(self, latent: Latent, post: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """(loss, mean divergence in nats) of posteriors and priors [..., P]."""
        raise TypeError(f"{type(self).__name__} must define __call__")

    def check(self, latent: Latent) -> None:
        """Refuses a latent that this way does not fit."""


class FreeNatsKL(KLLoss):
    """The mean divergence, not pushed below some nats; one weight for prior and posterior (PlaNet, Dreamer v1).

    Args:
        free_nats: Nats that cost nothing.
        kl_coef: Of the divergence in the loss.
    """

    def __init__(self, free_nats: NonNegativeFloat = 3.0, kl_coef: NonNegativeFloat = 1.0) -> None:
        self.free_nats, self.kl_coef = free_nats, kl_coef

    def __call__(self, latent: Latent, post: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        kl = latent.kl(latent.dist(post), latent.dist(prior))
        return self.kl_coef * math.free_nats_kl(kl, self.free_nats), kl.mean()

    def check(self, latent: Latent) -> None:
        if isinstance(latent, CategoricalLatent):
            raise ConfigError(
                "FreeNatsKL moves prior and posterior alike, which collapses a CategoricalLatent. "
                "Use BalancedKL (v2) or DynRepKL (v3), or a GaussianLatent"
            )


class BalancedKL(KLLoss):
    """The prior learns faster than the posterior (Dreamer v2).

    Args:
        balance: Fraction of the divergence that moves the prior.
        free_nats: Nats that cost nothing, after averaging.
        kl_coef: Of the divergence in the loss.
    """

    def __init__(
        self, balance: float = 0.8, free_nats: NonNegativeFloat = 1.0, kl_coef: NonNegativeFloat = 1.0
    ) -> None:
        if not 0.0 <= balance <= 1.0:
            raise ConfigError(f"BalancedKL.balance is {balance}; it is a share between 0 and 1")
        self.balance, self.free_nats, self.kl_coef = balance, free_nats, kl_coef

    def __call__(self, latent: Latent, post: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        dyn, rep = _both_ways(latent, post, prior)
        return self.kl_coef * math.balanced_kl(dyn, rep, self.balance, self.free_nats), dyn.mean()


class DynRepKL(KLLoss):
    """A weight for the prior and one for the posterior, free nats for every state alone (Dreamer v3).

    Args:
        dyn_coef: Weight of the divergence that moves the prior (1.0; 0.5 as first published).
        rep_coef: Weight of the divergence that moves the posterior.
        free_nats: Nats that cost nothing, in each state.
    """

    def __init__(
        self, dyn_coef: float = 1.0, rep_coef: float = 0.1, free_nats: NonNegativeFloat = 1.0
    ) -> None:
        self.dyn_coef, self.rep_coef, self.free_nats = dyn_coef, rep_coef, free_nats

    def __call__(self, latent: Latent, post: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        dyn, rep = _both_ways(latent, post, prior)
        return math.dyn_rep_kl(dyn, rep, self.dyn_coef, self.rep_coef, self.free_nats), dyn.mean()


def _both_ways(latent: Latent, post: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    """KL(sg(q), p), which moves the prior alone, and KL(q, sg(p)), which moves the posterior alone."""
    q, p = latent.dist(post), latent.dist(prior)
    still_q, still_p = tuple(x.detach() for x in q), tuple(x.detach() for x in p)
    return latent.kl(still_q, p), latent.kl(q, still_p)
