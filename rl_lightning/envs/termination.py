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
    """Says of each next observation whether the episode is over. A subclass defines `is_terminal`.

    An observation that is not finite is over in any case: nothing can go on from it.

    Args:
        max_abs_obs: A feature of this size or more ends the episode, too, as a model that runs away; null: no limit.
    """

    def __init__(self, max_abs_obs: float | None = None) -> None:
        if max_abs_obs is not None and max_abs_obs <= 0.0:
            raise ConfigError(f"max_abs_obs must be above 0, not {max_abs_obs}; null sets no limit.")
        self.max_abs_obs = max_abs_obs

    def is_terminal(self, next_obs: Tensor) -> Tensor:  # [..., O] -> [...] bool
        """The env's rule, for finite observations."""
        raise TypeError(f"{type(self).__name__} must define is_terminal(next_obs)")

    def __call__(self, next_obs: Tensor) -> Tensor:  # [..., O] -> [...] bool
        limit = math.inf if self.max_abs_obs is None else self.max_abs_obs
        return self.is_terminal(next_obs) | ~(next_obs.abs().amax(-1) < limit)  # NaN is below nothing


class NoTermination(Termination):
    """Episodes that only a time limit ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        return next_obs.new_zeros(next_obs.shape[:-1], dtype=torch.bool)


class HopperTermination(Termination):
    """Hopper falls: too low, too far bent, or a feature out of bounds.

    Args:
        min_z: Height that must be exceeded.
        max_angle: Absolute angle of the torso that must not be reached.
        max_state: Size that no other feature may reach.
        max_abs_obs: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(
        self,
        min_z: float = 0.7,
        max_angle: float = 0.2,
        max_state: float = 100.0,
        max_abs_obs: float | None = None,
    ) -> None:
        super().__init__(max_abs_obs)
        self.min_z, self.max_angle, self.max_state = min_z, max_angle, max_state

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        upright = (next_obs[..., 0] > self.min_z) & (next_obs[..., 1].abs() < self.max_angle)
        return ~(upright & (next_obs[..., 1:].abs().amax(-1) < self.max_state))


class Walker2dTermination(Termination):
    """Walker2d falls: too low, too high or too far bent.

    Args:
        min_z: Height that must be exceeded.
        max_z: Height that must not be reached.
        max_angle: Absolute angle of the torso that must not be reached.
        max_abs_obs: A feature of this size or more ends the episode, too; null: no limit (100 in other
            implementations).
    """

    def __init__(
        self, min_z: float = 0.8, max_z: float = 2.0, max_angle: float = 1.0, max_abs_obs: float | None = None
    ) -> None:
        super().__init__(max_abs_obs)
        self.min_z, self.max_z, self.max_angle = min_z, max_z, max_angle

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        upright = (height > self.min_z) & (height < self.max_z) & (next_obs[..., 1].abs() < self.max_angle)
        return ~upright


class HalfCheetahTermination(NoTermination):
    """HalfCheetah never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit
            (100 in other implementations).
    """


class AntTermination(Termination):
    """Ant ends outside a closed range of heights.

    Args:
        min_z: Smallest healthy height.
        max_z: Largest healthy height.
        max_abs_obs: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, min_z: float = 0.2, max_z: float = 1.0, max_abs_obs: float | None = None) -> None:
        super().__init__(max_abs_obs)
        self.min_z, self.max_z = min_z, max_z

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        return ~((height >= self.min_z) & (height <= self.max_z))


class HumanoidTermination(Termination):
    """Humanoid ends outside an open range of heights.

    Args:
        min_z: Height that must be exceeded.
        max_z: Height that must not be reached.
        max_abs_obs: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, min_z: float = 1.0, max_z: float = 2.0, max_abs_obs: float | None = None) -> None:
        super().__init__(max_abs_obs)
        self.min_z, self.max_z = min_z, max_z

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        height = next_obs[..., 0]
        return ~((height > self.min_z) & (height < self.max_z))


class PendulumTermination(NoTermination):
    """Pendulum never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """


class PenTermination(Termination):
    """Adroit's pen ends when it is dropped.

    Args:
        min_z: Height below which the pen counts as dropped.
        max_abs_obs: A feature of this size or more ends the episode, too; null: no limit.
    """

    def __init__(self, min_z: float = 0.075, max_abs_obs: float | None = None) -> None:
        super().__init__(max_abs_obs)
        self.min_z = min_z

    def is_terminal(self, next_obs: Tensor) -> Tensor:
        return next_obs[..., 26] < self.min_z


class DoorTermination(NoTermination):
    """Adroit's door never ends.

    Args:
        guard: A feature of this size or more ends the episode, as a model that runs away; null: no limit.
    """


FAMILIES: dict[str, type[Termination]] = {
    "hopper": HopperTermination,
    "walker2d": Walker2dTermination,
    "halfcheetah": HalfCheetahTermination,
    "ant": AntTermination,
    "humanoid": HumanoidTermination,
    "pendulum": PendulumTermination,
    "pen": PenTermination,
    "adroithandpen": PenTermination,
    "door": DoorTermination,
    "adroithanddoor": DoorTermination,
    "humanoidstandup": NoTermination,
    "pusher": NoTermination,
    "reacher": NoTermination,
    "swimmer": NoTermination,
}


def termination_for(env_id: str) -> Termination:
    """The rule of an env or data set by the first word of its name: Hopper-v5, hopper-medium-v2, local/hopper-..."""
    family = env_id.rsplit("/", 1)[-1].split("-", 1)[0].lower()
    if family not in FAMILIES:
        raise ConfigError(
            f"no rule says when an episode of '{env_id}' ends; there are rules for {', '.join(FAMILIES)}.\n"
            "Give one: --data.termination NoTermination, or a subclass of Termination of your own"
        )
    return FAMILIES[family]()
