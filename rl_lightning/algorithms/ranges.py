"""What an option of an algorithm may be, by its name: a name means the same in every algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rl_lightning.errors import ConfigError

RULES: list[tuple[str, str, Callable[[float], bool]]] = [
    ("gamma epsilon mix input_noise rho", "it lies between 0 and 1", lambda x: 0 <= x <= 1),
    ("target_rate slow_rate", "it is above 0, and at most 1", lambda x: 0 < x <= 1),
    ("dropout ema_decay", "it is at least 0, and below 1", lambda x: 0 <= x < 1),
    ("percentile", "it lies between 0 and 100", lambda x: 0 <= x <= 100),
    (
        "lr actor_lr alpha_lr critic_lr policy_noise noise_clip explore_noise guidance_scale actor_starts past warmup",
        "it must not be negative",
        lambda x: x >= 0,
    ),
    (
        "max_grad_norm controller_grad_norm clip value_clip clip_guess target_kl huber_delta ratio_limit "
        "advantage_clip initial_alpha",
        "it must be above 0",
        lambda x: x > 0,
    ),
    (
        "act_steps actor_every assess_rows candidates checked critic_subset critics decay_steps depth elites epochs "
        "holdout_rows horizon horizons latent members minibatch_size mixtures n_step noise_draws obs_steps patience "
        "lr_patience slow_every target_candidates target_every",
        "it must be at least 1",
        lambda x: x >= 1,
    ),
]
RANGES = {name: (said, holds) for names, said, holds in RULES for name in names.split()}


def check_ranges(options: Mapping[str, Any], prefix: str = "") -> None:
    """Raises for an option of a model that its name does not allow; null is for the model to judge.

    Args:
        options: Arguments of the model's constructor.
        prefix: How a config spells them, e.g. "model.".
    """
    for name, value in options.items():
        said, holds = RANGES.get(name, ("", lambda x: True))
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, int | float) and not isinstance(each, bool) and not holds(each):
                raise ConfigError(f"{prefix}{name} is {value}; {said}")
