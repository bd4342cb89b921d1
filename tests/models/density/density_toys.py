"""Data whose density is known, and a short training."""

import functools
import math
from functools import partial

import torch
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from rl_lightning.models.density import KDE, DiffusionDensity, ODEFlow, RealNVP, VAEDensity

SMALL = {
    "RealNVP": partial(RealNVP, hidden_dims=[64, 64]),
    "KDE": partial(KDE, max_rows=4000, n_neighbors=None),
    "VAEDensity": partial(VAEDensity, latent_dim=2, hidden_dims=[64, 64], num_importance_samples=32),
    "ODEFlow": partial(ODEFlow, hidden_dim=32, num_solver_steps=3),
    "DiffusionDensity": partial(DiffusionDensity, hidden_dims=[64, 64]),
}
FAST = {"lr": 1e-2, "updates": 200}
ENOUGH = {"VAEDensity": FAST | {"updates": 800}, "DiffusionDensity": FAST | {"updates": 800, "batch": 1024}}


def correlated(dim: int = 16, scale: float = 10.0) -> MultivariateNormal:
    """Columns of very different size that depend on each other."""
    generator = torch.Generator().manual_seed(1)
    mix = torch.eye(dim) + 0.5 * torch.randn(dim, dim, generator=generator) / math.sqrt(dim) * 2
    mix = mix * torch.logspace(-1, 1, dim)[:, None] * scale
    return MultivariateNormal(torch.linspace(-30, 30, dim), scale_tril=torch.linalg.cholesky(mix @ mix.T))


def mixture() -> MixtureSameFamily:
    """Three overlapping bumps on the plane, one of them oblique."""
    means = torch.tensor([[-1.0, 0.0], [1.0, 0.5], [0.0, -1.5]])
    covariances = torch.tensor(
        [[[0.5, 0.3], [0.3, 0.4]], [[0.3, 0.0], [0.0, 0.6]], [[0.8, -0.2], [-0.2, 0.2]]]
    )
    return MixtureSameFamily(
        Categorical(torch.tensor([0.4, 0.35, 0.25])), MultivariateNormal(means, covariances)
    )


def draw(truth, count: int, seed: int) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return truth.sample((count,))


def fit(recipe, x: torch.Tensor, updates: int, batch: int = 256, lr: float = 3e-3, seed: int = 0):
    """A model of the rows, trained with a falling rate."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = recipe(x.shape[1])
        net.fit_statistics(x)
        if not net.trains:
            return net
        optimizer = torch.optim.Adam(net.parameters(), lr, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
        for _ in range(updates):
            loss = net.loss(x[torch.randint(len(x), (batch,))])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return net.eval()


@functools.cache
def fitted(name: str, enough: bool = False):
    """A model of the mixture, in data units that are not the standardised ones; trained once for all tests."""
    return fit(SMALL[name], stretch(draw(mixture(), 20_000, 0)), **(ENOUGH[name] if enough else FAST))


def stretch(x: torch.Tensor) -> torch.Tensor:
    return 5.0 * x + 3.0


def true_log_prob(x: torch.Tensor) -> torch.Tensor:
    """Of the stretched mixture."""
    return mixture().log_prob((x - 3.0) / 5.0) - 2.0 * math.log(5.0)
