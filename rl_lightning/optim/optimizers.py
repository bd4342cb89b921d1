"""Optimizers as a config names them: torch's own, with the fused kernel where it has one for the parameters' device.

Any other of `torch.optim`, or of a user's, is named just so: what makes one takes the parameters and the learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn

from rl_lightning.errors import ConfigError
from rl_lightning.kernels.cpu_adafactor import CPUAdafactor
from rl_lightning.kernels.fused_adam import FusedAdam

# Parameters, which already live on their device, and a learning rate -> an optimizer of them.
OptimizerFactory = Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]
FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu")


def _can_fuse(params: list[nn.Parameter]) -> bool:
    return all(p.device.type in FUSED_DEVICES and p.is_floating_point() for p in params)


def _check(betas: tuple[float, float] = (0.0, 0.0), eps: float = 1.0, weight_decay: float = 0.0) -> None:
    if not all(0.0 <= beta < 1.0 for beta in betas):
        raise ConfigError(f"betas must lie in [0, 1), not {betas}.")
    if eps <= 0.0 or weight_decay < 0.0:
        raise ConfigError(f"eps must be above 0 and weight_decay not negative, not {eps} and {weight_decay}.")


class Adam(FusedAdam):
    """Adam.

    Args:
        betas: Decay of the running mean and of the running square of the gradient.
        eps: Added to the denominator.
        weight_decay: L2 penalty added to the gradient.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        _check(betas, eps, weight_decay)
        params = list(params)
        super().__init__(params, lr, betas, eps, weight_decay, fused=_can_fuse(params) or None)


class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay.

    Args:
        betas: Decay of the running mean and of the running square of the gradient.
        eps: Added to the denominator.
        weight_decay: Fraction of each weight taken away per unit of learning rate.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        _check(betas, eps, weight_decay)
        params = list(params)
        super().__init__(params, lr, betas, eps, weight_decay, fused=_can_fuse(params) or None)


class RMSprop(torch.optim.RMSprop):
    """RMSprop.

    Args:
        alpha: Decay of the running square of the gradient.
        eps: Added to the denominator.
        momentum: Decay of the running step; 0 is none.
        weight_decay: L2 penalty added to the gradient.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        alpha: float = 0.99,
        eps: float = 1e-8,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        _check((alpha, 0.0), eps, weight_decay)
        super().__init__(list(params), lr, alpha, eps, weight_decay, momentum, foreach=True)


class SGD(torch.optim.SGD):
    """Stochastic gradient descent.

    Args:
        momentum: Decay of the running step; 0 is none.
        nesterov: Look ahead along the running step.
        weight_decay: L2 penalty added to the gradient.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        _check(weight_decay=weight_decay)
        if nesterov and momentum <= 0.0:
            raise ConfigError("nesterov needs a momentum above 0.")
        params = list(params)
        super().__init__(
            params,
            lr,
            momentum,
            weight_decay=weight_decay,
            nesterov=nesterov,
            fused=_can_fuse(params) or None,
        )


class Adafactor(CPUAdafactor):
    """Adafactor (Shazeer and Stern 2018) with relative steps: min(lr, 1/sqrt t) times the size of each weight.

    The second moment of a matrix is kept as a row and a column over its last two axes.

    Args:
        eps: Smallest mean square of a gradient, as its root, and smallest size of a weight. torch's own default of the
            first is so large that it changes what small gradients do; far smaller ones divide by zero.
        clip_threshold: Updates are scaled down to this root mean square.
        beta2_decay: Exponent of the decay of the running square: 1 - t^decay.
        weight_decay: Fraction of each weight taken away per unit of learning rate.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float,
        /,
        eps: tuple[float, float] = (1e-15, 1e-3),
        clip_threshold: float = 1.0,
        beta2_decay: float = -0.8,
        weight_decay: float = 0.0,
    ) -> None:
        if min(eps) <= 0.0 or weight_decay < 0.0 or clip_threshold <= 0.0 or beta2_decay > 0.0:
            raise ConfigError(
                f"Adafactor: eps {eps} and clip_threshold {clip_threshold} must be above 0, weight_decay "
                f"{weight_decay} not negative and "
                f"beta2_decay {beta2_decay} not positive."
            )
        floors = (float(eps[0]), float(eps[1]))
        # one tensor after the other: without copies of all together
        super().__init__(list(params), lr, beta2_decay, floors, clip_threshold, weight_decay, foreach=False)
