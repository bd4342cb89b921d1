"""How far the members of a learned model disagree on what a critic sees behind a step."""

from __future__ import annotations

from torch import Tensor


def bellman_inconsistency(value: Tensor) -> Tensor:
    """MOBILE's: the standard deviation over members of the mean value of the next observations that each draws. Noise
    that all of them know of counts for nothing.  [S, K, B] -> [B]"""
    assert value.ndim == 3 and value.shape[1] > 1, value.shape
    return value.mean(0).std(0)
