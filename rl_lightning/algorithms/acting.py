"""What acts in an env: the one method that a collector needs, and roles that a phase may name."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.collect import ActFn
from rl_lightning.types import Carry


class Acting:
    """Mixed into modules that act."""

    device: torch.device
    reward_carry: ClassVar[int | None] = None  # part [N, 1] of the carry that whoever plays adds rewards to

    def act(
        self, obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
    ) -> tuple[Tensor, Carry]:
        """Actions for N observations: greedy if `generator` is None, else drawn from it."""
        raise TypeError(f"{type(self).__name__} must define act(obs, carry, explore, mask)")

    def initial_carry(self, count: int) -> Carry:
        """The recurrent state of `count` envs at the start of an episode: zeros, or nothing."""
        return ()

    def actor_for_role(self, role: str) -> ActFn:
        """Who acts under a role that a phase names: the agent itself, or a method `act_<role>` of the module."""
        if role == "agent":
            return self.act
        roles = [name.removeprefix("act_") for name in dir(type(self)) if name.startswith("act_")]
        if role not in roles:
            known = ", ".join(["agent", "random", *roles])
            raise ConfigError(f"{type(self).__name__} has no controller '{role}'; there are {known}")
        return getattr(self, f"act_{role}")

    def act_fn(self, role: str = "agent") -> ActFn:
        """Who acts under a role, taking observations from wherever envs leave them to the module's device."""
        act = self.actor_for_role(role)
        if self.device.type == "cpu":
            return act

        def on_device(
            obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
        ) -> tuple[Tensor, Carry]:
            return act(obs.to(self.device), carry, generator, None if mask is None else mask.to(self.device))

        return on_device
