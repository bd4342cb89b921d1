"""Kernel density over the nearest of the kept rows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.models.density.density_model import LOG_2PI, DensityModel, check_positive

PROBES = 512  # kept rows that a bandwidth is chosen by
WIDTHS = tuple(2.0 ** (-i / 3) for i in range(13))  # tried as multiples of Scott's rule


class KDE(DensityModel):
    """Kernel density of the nearest rows; needs no training.

    Gaussian kernels on prepared rows, summed over the nearest ones in logs: no floor, however far away.

    Args:
        n_neighbors: Nearest kept rows whose kernels are summed; null: all. On Hopper 100 of 10,000 cost at most
            0.01 nats of held-out log-density at the bandwidth chosen by null, but up to 0.13 at 0.6 (Scott's
            rule) and 0.4 to 0.8 at 1.0, more the more rows are kept (1.7 of 80,000): set null with wide
            bandwidths or few dimensions.
        bandwidth: Width of a kernel in standard deviations of the data; null: the likeliest, each kept row being judged
            by the others.
        max_rows: Most rows of the data that are kept, drawn at random.
        whiten: Take linear dependence between columns out before distances; off, only their scales.
    """

    trains = False
    chunk = 256
    support: Tensor
    count: Tensor
    width: Tensor

    def __init__(
        self,
        dim: int,
        /,
        n_neighbors: int | None = 100,
        bandwidth: float | None = None,
        max_rows: int = 10_000,
        whiten: bool = True,
    ) -> None:
        check_positive(n_neighbors=n_neighbors, bandwidth=bandwidth, max_rows=max_rows)
        super().__init__(dim, whiten=whiten)
        self.n_neighbors, self.bandwidth = n_neighbors, bandwidth
        self.register_buffer("support", torch.zeros(max_rows, dim))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("width", torch.ones(()))

    @torch.no_grad()
    def fit_statistics(self, x: Tensor) -> None:
        super().fit_statistics(x)
        count = min(len(x), len(self.support))
        generator = torch.Generator().manual_seed(0)  # which rows are kept follows from the rows alone
        rows = torch.randperm(len(x), generator=generator)[:count]
        self.support.zero_()
        self.support[:count] = self.prepare(x[rows.to(x.device)])
        self.count.fill_(count)
        self.width.fill_(self._choose_width() if self.bandwidth is None else self.bandwidth)

    def _choose_width(self) -> float:
        """The bandwidth under which kept rows are likeliest given all others."""
        count = int(self.count)
        scott = float(count ** (-1.0 / (self.dim + 4)))
        if count < 3:
            return scott
        probes = self.support[: min(count, PROBES)]
        nearest = torch.cat([self._distances(part, 1) for part in probes.split(self.chunk)])
        others = nearest.sort(-1).values[:, 1:]  # the first is the row itself
        tried = [scott * factor for factor in WIDTHS]
        return max(tried, key=lambda width: float(self._sum(others, width, count - 1).mean()))

    def _distances(self, z: Tensor, more: int = 0) -> Tensor:
        """Squared distances to the nearest kept rows [B, D] -> [B, K], in no order."""
        count = int(self.count)
        support = self.support[:count]
        # half the squared distance less what is the same for all of the support; greater is nearer
        near = torch.addmm(support.square().sum(-1), z, support.T, beta=-0.5)
        if self.n_neighbors is not None and self.n_neighbors + more < count:
            near = near.topk(self.n_neighbors + more, -1, sorted=False).values
        return (z.square().sum(-1, keepdim=True) - 2.0 * near).clamp_min_(0.0)

    def _sum(self, distances: Tensor, width: Tensor | float, count: int) -> Tensor:
        width = torch.as_tensor(width, device=distances.device)
        kernels = torch.logsumexp(distances * (-0.5 / width.square()), -1)
        return kernels - math.log(count) - self.dim * (width.log() + 0.5 * LOG_2PI)

    def log_prob(self, z: Tensor) -> Tensor:
        if self.count == 0:
            raise ConfigError("this kernel density has no rows yet: it is made by a density stage")
        return self._sum(self._distances(z), self.width, int(self.count))
