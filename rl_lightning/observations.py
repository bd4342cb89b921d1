"""Observations of several parts (Dict and Tuple spaces) as one row, and the parts of such a row.

Where no part is a picture a row is float32, part after part. Else it is bytes: first the vectors, as the bytes of their
float32 numbers, then the pictures as they are, filled up to a multiple of four. So whatever lies between an env and a
network (collectors, replay, checkpoints) moves rows of one type, and a pixel takes one byte everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError

FLOAT = 4  # bytes
Observed = TypeVar("Observed", Tensor, dict[str, Tensor])


class ObsPart(NamedTuple):
    """One entry of a Dict observation: a "vector", a "discrete" value as one-hot, or a "picture" [C, H, W]."""

    name: str
    kind: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ObsLayout:
    """Where each part lies in a row.

    Args:
        parts: In the order of the row, vectors before pictures.
    """

    parts: tuple[ObsPart, ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[str, str, tuple[int, ...]]]) -> ObsLayout:
        """From plain values, as a spec holds them."""
        named = [ObsPart(name, kind, tuple(shape)) for name, kind, shape in parts]
        return cls(tuple(sorted(named, key=lambda part: part.kind == "picture")))

    @property
    def has_pictures(self) -> bool:
        return any(part.kind == "picture" for part in self.parts)

    @property
    def numbers(self) -> int:
        """How many float32 numbers a row begins with."""
        return sum(part.size for part in self.parts if part.kind != "picture")

    @property
    def width(self) -> int:
        """Of a row: numbers, or bytes where a part is a picture."""
        if not self.has_pictures:
            return self.numbers
        size = FLOAT * self.numbers + sum(part.size for part in self.parts if part.kind == "picture")
        return -(-size // FLOAT) * FLOAT

    def parts_seen(self, where: str, named: Iterable[str], ignore: Iterable[str]) -> list[ObsPart]:
        """The parts that are not ignored. Names that are not there are refused, and so is ignoring all.

        Args:
            where: What they were given to, for errors.
            named: Parts that something was chosen for.
            ignore: Parts to leave out.
        """
        ignored, names = set(ignore), [part.name for part in self.parts]
        for name in (*named, *ignored):
            if name not in names:
                raise ConfigError(
                    f"{where}: observations have no part '{name}'; there are {', '.join(names)}"
                )
        seen = [part for part in self.parts if part.name not in ignored]
        if not seen:
            raise ConfigError(f"{where}.ignore leaves no part of the observations")
        return seen

    def vectors(self, obs: Tensor) -> Tensor:
        """The numbers of rows [..., D] -> [..., V], float32; no copy."""
        return obs[..., : FLOAT * self.numbers].view(torch.float32) if self.has_pictures else obs

    def on_vectors(self, change: Callable[[Tensor], Tensor], obs: Observed) -> Observed:
        """Rows (or parts by their names) with changed numbers; pictures stay as they are."""
        if isinstance(obs, dict):
            named = [part for part in self.parts if part.kind != "picture"]
            numbers = change(torch.cat([obs[p.name].flatten(-len(p.shape)) for p in named], -1))
            pieces = numbers.split([p.size for p in named], -1)
            return obs | {
                p.name: piece.unflatten(-1, p.shape) for p, piece in zip(named, pieces, strict=True)
            }
        head = change(self.vectors(obs)).to(torch.float32).contiguous().view(torch.uint8)
        return torch.cat((head, obs[..., head.shape[-1] :]), -1)

    def split(self, obs: Tensor) -> dict[str, Tensor]:
        """Rows [..., D] -> each part by its name, [..., *shape]; no copy."""
        numbers, pictures = self.vectors(obs), obs[..., FLOAT * self.numbers :]
        at = {False: 0, True: 0}
        split: dict[str, Tensor] = {}
        for part in self.parts:
            seen = part.kind == "picture"
            rows = (pictures if seen else numbers)[..., at[seen] : at[seen] + part.size]
            split[part.name] = rows.unflatten(-1, part.shape)
            at[seen] += part.size
        return split
