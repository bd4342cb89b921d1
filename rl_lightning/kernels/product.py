"""Matrix products of full precision by oneDNN where it is quicker than what torch takes.

Torch gives fp32 products to MKL, which on some CPUs (AMD's with AVX-512) leaves half of a core unused: 256 x 256 x 256
take 0.29 ms, and by oneDNN 0.14 ms. Both round as fp32 does: 4e-7 and 7e-7 of the largest number. Which of them a
product takes depends on its size alone, so that a run repeats itself.
"""

from __future__ import annotations

import torch
from torch import Tensor

ENOUGH = 1 << 21  # multiplications from which oneDNN's larger start-up pays
ENOUGH_TANH = 6144  # numbers from which its tanh does
HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """[B, I], [O, I], [O] -> [B, O]; nothing can be derived."""
    if weight.shape[0] == 1 and bias is not None:  # a product with one column is slower
        return torch.addmv(bias, x, weight[0]).unsqueeze(1)
    if not HAS_ONEDNN or x.shape[0] * weight.numel() < ENOUGH:
        return torch.nn.functional.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def affine_tanh(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """tanh(affine(x, weight, bias)), by oneDNN in one go where that is quicker; nothing can be derived.

    256 rows through 64 neurons take 26 us, through 256 neurons 180; product and torch's tanh 58 and 467. Both are as
    far from tanh in double precision.
    """
    if not HAS_ONEDNN or x.shape[0] * weight.shape[0] < ENOUGH_TANH:
        return affine(x, weight, bias).tanh_()
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "tanh", [], "")


def product(left: Tensor, right: Tensor) -> Tensor:
    """[M, K], [K, N] -> [M, N]; nothing can be derived."""
    return affine(left, right.t(), None)
