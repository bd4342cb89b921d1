"""When an imagined episode ends: the envs' own rules, as conditions on the next observation.

A rule is exact for its env as long as the env keeps Gymnasium's healthy ranges and leaves the root's position out of
the observation, as it does by default. A time limit is never a rule.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from rl_lightning.errors import ConfigError


class Termination:
    """Says of each next observation whether the episode is over. A subclass defines `ends`.

    An observation that is not finite is over in any case: nothing can go on from it.

    Args:
        guard: A feature of this size or more ends the episode, too, as a model that runs away; null: no limit.
    """

    def __init__(self, guard: float | None = None) -> None:
        if guard is not None and guard <= 0.0:
            raise ConfigError(f"guard must be above 0, not {guard}; null sets no limit.")
        self.guard = guard

    def ends(self, next_obs: Tensor) -> Tensor:  # [..., O] -> [...] bool
        """The env's rule, for finite observations."""
        raise TypeError(f"{type(self).__name__} must define ends(next_obs)")

    def __call__(self, next_obs: Tensor) -> Tensor:  # [..., O] -> [...] bool
        limit = math.inf if self.guard is None else self.guard
        return self.ends(next_obs) | ~(next_obs.abs().amax(-1) < limit)  # NaN is below nothing


class NeverEnds(Termination):
    """Episodes that only a time limit ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """

    def ends(self, next_obs: Tensor) -> Tensor:
        return next_obs.new_zeros(next_obs.shape[:-1], dtype=torch.bool)


class HopperEnds(Termination):
    """Hopper falls: too low, too far bent, or a feature out of bounds.

    Args:
        lowest: Height that must be exceeded.
        angle: Absolute angle of the torso that must not be reached.
        limit: Size that no other feature may reach.
        guard: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(
        self, lowest: float = 0.7, angle: float = 0.2, limit: float = 100.0, guard: float | None = None
    ) -> None:
        super().__init__(guard)
        self.lowest, self.angle, self.limit = lowest, angle, limit

    def ends(self, next_obs: Tensor) -> Tensor:
        upright = (next_obs[..., 0] > self.lowest) & (next_obs[..., 1].abs() < self.angle)
        return ~(upright & (next_obs[..., 1:].abs().amax(-1) < self.limit))


class Walker2dEnds(Termination):
    """Walker2d falls: too low, too high or too far bent.

    Args:
        lowest: Height that must be exceeded.
        highest: Height that must not be reached.
        angle: Absolute angle of the torso that must not be reached.
        guard: A feature of this size or more ends the episode, too; null: no limit (100 in other implementations).
    """

    def __init__(
        self, lowest: float = 0.8, highest: float = 2.0, angle: float = 1.0, guard: float | None = None
    ) -> None:
        super().__init__(guard)
        self.lowest, self.highest, self.angle = lowest, highest, angle

    def ends(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        upright = (height > self.lowest) & (height < self.highest) & (next_obs[..., 1].abs() < self.angle)
        return ~upright


class HalfCheetahEnds(NeverEnds):
    """HalfCheetah never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit
            (100 in other implementations).
    """


class AntEnds(Termination):
    """Ant ends outside a closed range of heights.

    Args:
        lowest: Smallest healthy height.
        highest: Largest healthy height.
        guard: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, lowest: float = 0.2, highest: float = 1.0, guard: float | None = None) -> None:
        super().__init__(guard)
        self.lowest, self.highest = lowest, highest

    def ends(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        return ~((height >= self.lowest) & (height <= self.highest))


class HumanoidEnds(Termination):
    """Humanoid ends outside an open range of heights.

    Args:
        lowest: Height that must be exceeded.
        highest: Height that must not be reached.
        guard: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, lowest: float = 1.0, highest: float = 2.0, guard: float | None = None) -> None:
        super().__init__(guard)
        self.lowest, self.highest = lowest, highest

    def ends(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        return ~((height > self.lowest) & (height < self.highest))


class PendulumEnds(NeverEnds):
    """Pendulum never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """


class PenEnds(Termination):
    """Adroit's pen ends when it is dropped.

    Args:
        lowest: Height below which the pen counts as dropped.
        guard: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, lowest: float = 0.075, guard: float | None = None) -> None:
        super().__init__(guard)
        self.lowest = lowest

    def ends(self, next_obs: Tensor) -> Tensor:
        return next_obs[..., 26] < self.lowest


class DoorEnds(NeverEnds):
    """Adroit's door never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """


FAMILIES: dict[str, type[Termination]] = {
    "hopper": HopperEnds,
    "walker2d": Walker2dEnds,
    "halfcheetah": HalfCheetahEnds,
    "ant": AntEnds,
    "humanoid": HumanoidEnds,
    "pendulum": PendulumEnds,
    "pen": PenEnds,
    "adroithandpen": PenEnds,
    "door": DoorEnds,
    "adroithanddoor": DoorEnds,
    "humanoidstandup": NeverEnds,
    "pusher": NeverEnds,
    "reacher": NeverEnds,
    "swimmer": NeverEnds,
}


def termination_for(env_id: str) -> Termination:
    """The rule of an env or data set by the first word of its name: Hopper-v5, hopper-medium-v2, local/hopper-..."""
    family = env_id.rsplit("/", 1)[-1].split("-", 1)[0].lower()
    if family not in FAMILIES:
        raise ConfigError(
            f"no rule says when an episode of '{env_id}' ends; there are rules for {', '.join(FAMILIES)}.\n"
            f"Give one: termination: {{class_path: NeverEnds}}, or a subclass of Termination of your own"
        )
    return FAMILIES[family]()
