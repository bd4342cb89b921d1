"""The random policy: the lower bar that every learned one must clear."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rl_lightning.algorithms.module import Metrics, RLModule
from rl_lightning.rollout.random_actor import random_actor
from rl_lightning.types import Carry, EnvSpec


class RandomPolicy(RLModule):
    """Chooses uniformly among the legal actions and learns nothing.

    Args:
        spec: What the env is like; filled in from the data.
    """

    explores_in_evaluation = True

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self._draw = random_actor(spec)

    def act(
        self, obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self._draw(obs, carry, explore, mask)

    def update(self, batch: Any) -> Metrics:
        return {}

    def configure_optimizers(self) -> None:
        return None
