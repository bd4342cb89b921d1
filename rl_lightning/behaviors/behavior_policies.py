"""Who plays while data are recorded for a world model: not white noise, which never leaves the place."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import Act
from rl_lightning.types import Carry, EnvSpec


class DataPolicy(ABC):
    """Recipe of an actor that needs no training."""

    @abstractmethod
    def build(self, spec: EnvSpec) -> Act:
        """The actor; its carry begins each episode with zeros."""

    def initial_carry(self, spec: EnvSpec, count: int) -> Carry:
        return ()


class UniformActions(DataPolicy):
    """Every action anew, all alike."""

    def build(self, spec: EnvSpec) -> Act:
        return random_actor(spec)


class BrownianActions(DataPolicy):
    """Actions that drift: a continuous one takes small steps, a discrete one is kept for a while.

    Args:
        step: Standard deviation of a continuous action's change in one step, actions lying in [-1, 1].
        keep: Probability that a discrete action is taken once more.
    """

    def __init__(self, step: float = 0.02**0.5, keep: float = 0.7) -> None:
        if step <= 0.0 or not 0.0 <= keep < 1.0:
            raise ConfigError(f"BrownianActions needs step above 0 and keep in [0, 1), not {step} and {keep}")
        self.step, self.keep = step, keep

    def initial_carry(self, spec: EnvSpec, count: int) -> Carry:
        return (
            torch.zeros(count, *spec.action_shape),
            torch.zeros(count),
        )  # last action, and whether there is one

    def build(self, spec: EnvSpec) -> Act:
        fresh = random_actor(spec)

        def act(
            obs: Tensor, carry: Carry, explore: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            generator = explore or torch.Generator().manual_seed(0)
            last, begun = carry
            new, _ = fresh(obs, (), generator, mask)
            rows = begun.bool().reshape(-1, *[1] * len(spec.action_shape))
            if spec.action_kind == "continuous":
                moved = last + self.step * torch.randn(last.shape, generator=generator)
                action = torch.where(rows, moved.clamp(-1.0, 1.0), new)
                return action, (action, torch.ones_like(begun))
            kept = torch.rand(len(obs), generator=generator).reshape(rows.shape) < self.keep
            if mask is not None and spec.action_kind == "discrete":
                kept &= mask.gather(1, last.long()[:, None])[:, 0]
            action = torch.where(rows & kept, last.long(), new)
            return action, (action.float(), torch.ones_like(begun))

        return act
