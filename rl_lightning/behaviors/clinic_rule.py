"""How the made-up clinicians of rl/Clinic set the level of support: by pressure alone, in small steps, each in a way of
their own."""

from __future__ import annotations

import torch
from torch import Tensor

from rl_lightning.envs.toys.clinic import LEVELS, SIGNALS
from rl_lightning.functional.action_distributions import standard_noise
from rl_lightning.types import Carry

PRESSURE, SPEED = SIGNALS.index("mean_pressure"), SIGNALS.index("pump_speed")
LOW, HIGH = 65.0, 85.0  # mmHg that they keep to
NOISE = 0.9  # levels


def clinician(
    obs: Tensor, carry: Carry, generator: torch.Generator | None, mask: Tensor | None = None
) -> tuple[Tensor, Carry]:
    """One level up where pressure is low, one down where it is high, and otherwise a little less, for weaning."""
    level = LEVELS[0] + (obs[:, SPEED] - 20.0) / 26.0 * (LEVELS[1] - LEVELS[0])
    pressure = obs[:, PRESSURE]
    change = torch.where(pressure < LOW, 1.3, torch.where(pressure > HIGH, -1.0, -0.1))
    wanted = (level + change)[:, None]
    if generator is not None:
        wanted = wanted + NOISE * standard_noise(wanted.shape, generator, wanted)
    return (2.0 * (wanted - LEVELS[0]) / (LEVELS[1] - LEVELS[0]) - 1.0).clamp(-1.0, 1.0), carry
