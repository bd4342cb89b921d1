"""A continuous normalising flow (Chen et al. 2018) whose divergence is exact at the price of one more product."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rl_lightning.models.density.density_model import (
    DensityModel,
    check_not_negative,
    check_positive,
    standard_normal,
)


class Field(nn.Module):
    """A velocity of two hidden layers, and its divergence.

    With f = W3 tanh(W2 tanh(W1 z + ...) + ...) + ..., the trace of the Jacobian W3 D2 W2 D1 W1 is
    d2' (W2 * (W1 W3)') d1, where d1 and d2 are the slopes of the two layers: neither an estimate nor a pass per column
    is needed, in training either.
    """

    def __init__(self, dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.first, self.time = nn.Linear(dim, hidden_dim), nn.Linear(1, hidden_dim, bias=False)
        self.second, self.third = nn.Linear(hidden_dim, hidden_dim), nn.Linear(hidden_dim, dim)
        nn.init.zeros_(self.third.weight)
        nn.init.zeros_(self.third.bias)

    def trace_weight(self) -> Tensor:
        return self.second.weight * (self.first.weight @ self.third.weight).T

    def forward(self, z: Tensor, t: float, trace: Tensor) -> tuple[Tensor, Tensor]:
        """[B, D] -> velocity [B, D], divergence [B]."""
        early = torch.addmm(self.first.bias + t * self.time.weight[:, 0], z, self.first.weight.T).tanh()
        late = self.second(early).tanh()
        slopes = (1.0 - early.square()) @ trace.T
        return self.third(late), ((1.0 - late.square()) * slopes).sum(-1)


class ODEFlow(DensityModel):
    """Continuous normalising flow; smoother than couplings, and several times dearer.

    Rows flow to a standard normal in unit time, by fixed steps of Runge and Kutta's fourth-order rule.

    Args:
        hidden_dim: Width of the two hidden layers of the velocity.
        num_solver_steps: Fixed steps of the solver.
        noise_std: Standard deviation of the noise added to standardised rows in training.
        whiten: Take linear dependence between columns out before the flow; off, only their scales.
    """

    chunk = 2048

    def __init__(
        self,
        dim: int,
        /,
        hidden_dim: int = 128,
        num_solver_steps: int = 5,
        noise_std: float = 0.01,
        whiten: bool = True,
    ) -> None:
        check_positive(hidden_dim=hidden_dim, num_solver_steps=num_solver_steps)
        check_not_negative(noise_std=noise_std)
        super().__init__(dim, noise_std, whiten)
        self.num_solver_steps = num_solver_steps
        self.field = Field(dim, hidden_dim)

    def forward(self, z: Tensor, backward: bool = False) -> tuple[Tensor, Tensor]:
        """Prepared rows to the latent (or back): [B, D] -> [B, D], integral of the divergence [B]."""
        trace, total = self.field.trace_weight(), z.new_zeros(len(z))
        h = (-1.0 if backward else 1.0) / self.num_solver_steps
        for i in range(self.num_solver_steps):
            t = (1.0 if backward else 0.0) + i * h
            v1, d1 = self.field(z, t, trace)
            v2, d2 = self.field(torch.add(z, v1, alpha=h / 2), t + h / 2, trace)
            v3, d3 = self.field(torch.add(z, v2, alpha=h / 2), t + h / 2, trace)
            v4, d4 = self.field(torch.add(z, v3, alpha=h), t + h, trace)
            z = z + (h / 6) * (v1 + 2.0 * (v2 + v3) + v4)
            total = total + (h / 6) * (d1 + 2.0 * (d2 + d3) + d4)
        return z, total

    def log_prob(self, z: Tensor) -> Tensor:
        latent, divergence = self(z)
        return standard_normal(latent) + divergence
