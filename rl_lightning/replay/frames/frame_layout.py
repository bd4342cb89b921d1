"""What of a stacked observation is new at each step, and the observation again from what was new in the last k."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rl_lightning.observations import FLOAT, ObsLayout
from rl_lightning.types import EnvSpec

Array = NDArray[Any]


class FrameLayout:
    """Stacked pixels [k * C, H, W]: a frame is [C, H, W]."""

    def __init__(self, spec: EnvSpec) -> None:
        self.num_stack = spec.num_stack
        self.shape = (spec.obs_shape[0] // spec.num_stack, *spec.obs_shape[1:])

    def newest(self, obs: Array) -> Array:
        """[..., *obs_shape] -> [..., *shape]"""
        return obs[..., -self.shape[0] :, :, :]

    def split(self, obs: Array) -> Array:
        """All frames of one observation, the oldest first.  [*obs_shape] -> [k, *shape]"""
        return obs.reshape(-1, *self.shape)

    def stack(self, frames: Tensor) -> Tensor:
        """[B, k, *shape] -> [B, *obs_shape]"""
        return frames.flatten(1, 2)


class PartsLayout(FrameLayout):
    """Rows of bytes whose pictures are stacked: a frame is the vectors and the newest picture of each stack.

    Vectors are not stacked, so that older frames are asked for their pictures only.
    """

    def __init__(self, spec: EnvSpec) -> None:
        layout, k = ObsLayout.of(spec.obs_parts), spec.num_stack
        self.num_stack, self.width = k, layout.width
        vectors = FLOAT * layout.numbers
        own, row, frame = [np.tile(np.arange(vectors), (k, 1))], vectors, vectors
        source = [(k - 1, np.arange(vectors))]
        for part in layout.parts:
            if part.kind == "picture":
                size = part.size // k
                own.append(row + np.arange(part.size).reshape(k, size))
                source += [(j, frame + np.arange(size)) for j in range(k)]
                row, frame = row + part.size, frame + size
        self.places = np.concatenate(own, 1)  # [k, frame] where the bytes of each frame lie in a row
        self.shape = (self.places.shape[1],)
        # [row without its filling] where each byte of a row lies in k frames side by side
        self.source = torch.from_numpy(np.concatenate([j * self.shape[0] + place for j, place in source]))

    def newest(self, obs: Array) -> Array:
        return obs[..., self.places[-1]]

    def split(self, obs: Array) -> Array:
        return obs[self.places]

    def stack(self, frames: Tensor) -> Tensor:
        rows = frames.new_zeros(len(frames), self.width)
        rows[:, : len(self.source)] = frames.flatten(1)[:, self.source]
        return rows
