"""Who plays while data are recorded for a world model: not white noise, which never leaves the place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from rl_lightning.behaviors.random_actor import random_actor
from rl_lightning.errors import ConfigError
from rl_lightning.types import Carry, EnvSpec


class BehaviorPolicy(ABC):
    """An actor that needs no training; its carry begins each episode with zeros."""

    def __init__(self, spec: EnvSpec, /) -> None:
        self.spec = spec
        self.random = random_actor(spec)

    def initial_carry(self, count: int) -> Carry:
        return ()

    @abstractmethod
    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        """Actions for rows of observations."""


# Makes an actor for what an env is like.
BehaviorFactory = Callable[[EnvSpec], BehaviorPolicy]


class UniformActions(BehaviorPolicy):
    """Every action anew, all alike."""

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        return self.random(obs, carry, generator, mask)


class BrownianActions(BehaviorPolicy):
    """Actions that drift: a continuous one takes small steps, a discrete one is kept for a while.

    Args:
        noise_std: Standard deviation of a continuous action's change in one step, actions lying in [-1, 1].
        repeat_action_probability: Probability that a discrete action is taken once more.
    """

    def __init__(
        self, spec: EnvSpec, /, noise_std: float = 0.02**0.5, repeat_action_probability: float = 0.7
    ) -> None:
        super().__init__(spec)
        if noise_std <= 0.0 or not 0.0 <= repeat_action_probability < 1.0:
            raise ConfigError(
                f"BrownianActions needs noise_std above 0 and repeat_action_probability in [0, 1), not {noise_std} and "
                f"{repeat_action_probability}"
            )
        self.noise_std, self.repeat_action_probability = noise_std, repeat_action_probability

    def initial_carry(self, count: int) -> Carry:
        """The last action, and whether there is one."""
        return torch.zeros(count, *self.spec.action_shape), torch.zeros(count)

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        generator = generator or torch.Generator().manual_seed(0)
        spec, (last, has_last) = self.spec, carry
        new, _ = self.random(obs, (), generator, mask)
        rows = has_last.bool().reshape(-1, *[1] * len(spec.action_shape))
        if spec.action_kind == "continuous":
            moved = last + self.noise_std * torch.randn(last.shape, generator=generator)
            action = torch.where(rows, moved.clamp(-1.0, 1.0), new)
            return action, (action, torch.ones_like(has_last))
        draw = torch.rand(len(obs), generator=generator).reshape(rows.shape)
        repeat = draw < self.repeat_action_probability
        if mask is not None and spec.action_kind == "discrete":
            repeat &= mask.gather(1, last.long()[:, None])[:, 0]
        action = torch.where(rows & repeat, last.long(), new)
        return action, (action.float(), torch.ones_like(has_last))
