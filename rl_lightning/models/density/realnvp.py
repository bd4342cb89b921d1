"""RealNVP (Dinh et al. 2017): an exact density by a chain of invertible couplings."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_lightning.models.density.base import (
    DensityNet,
    DensityRecipe,
    check_not_negative,
    check_positive,
    standard_normal,
)
from rl_lightning.networks.coupling import AffineCoupling
from rl_lightning.networks.init import check_sizes


class RealNVPNet(DensityNet):
    """Couplings that move either half in turn; after each pair the columns change places, always in the same way."""

    chunk = 512
    orders: Tensor
    returns: Tensor

    def __init__(self, dim: int, couplings: int, hidden: list[int], noise: float, whiten: bool) -> None:
        super().__init__(dim, noise, whiten)
        self.couplings = nn.ModuleList(AffineCoupling(dim, hidden, bool(i % 2)) for i in range(couplings))
        generator = torch.Generator().manual_seed(0)  # part of the architecture, not of the run
        orders = [torch.randperm(dim, generator=generator) for _ in range(max(couplings - 1, 0) // 2)]
        stacked = torch.stack(orders) if orders else torch.empty(0, dim, dtype=torch.int64)
        self.register_buffer("orders", stacked)
        self.register_buffer("returns", stacked.argsort(-1))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Prepared rows to the latent: [B, D] -> [B, D], log-determinant [B]."""
        total = z.new_zeros(len(z))
        for i, coupling in enumerate(self.couplings):
            if i and i % 2 == 0:
                z = z.index_select(1, self.orders[i // 2 - 1])
            z, log_det = coupling(z)
            total = total + log_det
        return z, total

    def inverse(self, z: Tensor) -> Tensor:
        """The latent back to prepared rows."""
        for i in reversed(range(len(self.couplings))):
            z = self.couplings[i].inverse(z)  # type: ignore[operator]
            if i and i % 2 == 0:
                z = z.index_select(1, self.returns[i // 2 - 1])
        return z

    def log_prob(self, z: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return self._fast(z)
        latent, log_det = self(z)
        return standard_normal(latent) + log_det

    def _fast(self, z: Tensor) -> Tensor:
        columns, total = z.T.clone(memory_format=torch.contiguous_format), z.new_zeros(len(z))
        for i, coupling in enumerate(self.couplings):
            if i and i % 2 == 0:
                columns = columns.index_select(0, self.orders[i // 2 - 1])
            coupling.move_(columns, total)  # type: ignore[operator]
        return total.add_(standard_normal(columns.T))


class RealNVP(DensityRecipe):
    """Normalising flow of affine couplings.

    Args:
        couplings: How many; each moves half of the columns.
        hidden: Hidden sizes of the network in each coupling.
        noise: Standard deviation of the noise added to standardised rows in training; keeps a density of discrete or
            dependent columns finite.
        whiten: Take linear dependence between columns out before the couplings; off, only their scales.
    """

    def __init__(
        self,
        couplings: int = 6,
        hidden: list[int] = [256, 256],  # noqa: B006  (copied, never mutated)
        noise: float = 0.01,
        whiten: bool = True,
    ) -> None:
        check_positive(couplings=couplings, depth=len(hidden))
        check_not_negative(noise=noise)
        self.couplings, self.hidden = couplings, check_sizes("hidden", hidden)
        self.noise, self.whiten = noise, whiten

    def build(self, dim: int) -> RealNVPNet:
        return RealNVPNet(dim, self.couplings, self.hidden, self.noise, self.whiten)
