"""Random numbers of an exported policy: an input of its file, where ours come from a generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rl_lightning.errors import RLError


class GivenNoise(TorchFunctionMode):
    """Inside, whatever is drawn from a generator is made of standard normal numbers that are given.

    Args:
        noise: Standard normal numbers, a row for each observation [B, K]; null: they are counted only, and `used` says
            how many a row takes.
    """

    def __init__(self, noise: Tensor | None = None) -> None:
        super().__init__()
        self.noise, self.used = noise, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if not isinstance(options.get("generator"), torch.Generator):
            return func(*args, **options)
        name = getattr(func, "__name__", str(func))
        if name not in MAKERS:
            raise RLError(f"it draws by torch.{name}")
        noise = MAKERS[name](self.normals, args, options)
        return func(*args, **options) if self.noise is None else noise

    def normals(self, shape: Sequence[int]) -> Tensor:
        """The next numbers of every row, for a draw of [B, *shape]."""
        rest = [int(size) for size in shape]
        width, start = math.prod(rest), self.used
        self.used += width
        if self.noise is None:
            return torch.zeros(1, *rest)
        columns = self.noise[:, start : self.used]
        return columns.reshape(-1, *rest)


Normals = Callable[[Sequence[int]], Tensor]


def uniform(normal: Tensor) -> Tensor:
    """Numbers of (0, 1) by the normal distribution's own function; never 0 or 1, whose logarithms are not finite."""
    return (0.5 * (1.0 + torch.erf(normal * math.sqrt(0.5)))).clamp(1e-7, 1.0 - 1e-7)


def _shape(args: Sequence[Any]) -> Sequence[int]:
    """Of a draw, without its rows; a shape comes as one argument or as several."""
    whole = args[0] if isinstance(args[0], tuple | list | torch.Size) else args
    return whole[1:]


def _randn(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    return normals(_shape(args)).to(options.get("dtype") or torch.float32)


def _rand(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    return uniform(normals(_shape(args))).to(options.get("dtype") or torch.float32)


def _randint(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    low, high, shape = args if len(args) == 3 else (0, *args)
    return low + (uniform(normals(shape[1:])) * (high - low)).floor().long()


def _uniform(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    row, low, high = (*args, 0.0, 1.0)[:3]
    return low + (high - low) * uniform(normals(row.shape[1:])).to(row.dtype)


def _exponential(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    return -uniform(normals(args[0].shape[1:])).log().to(args[0].dtype)


def _multinomial(normals: Normals, args: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    """One class for each row of weights: of clocks that ring at these rates, the first."""
    weights = args[0]
    assert args[1] == 1, args[1]
    rings = -uniform(normals(weights.shape[1:])).log()
    return (rings.to(weights.dtype) / weights).argmin(-1, keepdim=True)


MAKERS: dict[str, Callable[[Normals, tuple[Any, ...], dict[str, Any]], Tensor]] = {
    "randn": _randn,
    "rand": _rand,
    "randint": _randint,
    "uniform_": _uniform,
    "exponential_": _exponential,
    "multinomial": _multinomial,
}
