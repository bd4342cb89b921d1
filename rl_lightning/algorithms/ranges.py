"""What an option of an algorithm may be, by its name: a name means the same in every algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rl_lightning.errors import ConfigError

RULES: list[tuple[str, str, Callable[[float], bool]]] = [
    (
        "gamma epsilon actor_grad_mix gae_lambda input_noise rho",
        "it lies between 0 and 1",
        lambda x: 0 <= x <= 1,
    ),
    ("tau", "it is above 0, and at most 1", lambda x: 0 < x <= 1),
    ("dropout ema_decay", "it is at least 0, and below 1", lambda x: 0 <= x < 1),
    ("percentile", "it lies between 0 and 100", lambda x: 0 <= x <= 100),
    (
        "lr actor_lr alpha_lr critic_lr policy_noise noise_clip exploration_noise guidance_scale "
        "actor_warmup_updates context_steps planner_warmup_updates",
        "it must not be negative",
        lambda x: x >= 0,
    ),
    (
        "max_grad_norm actor_critic_max_grad_norm clip_range clip_range_vf clip_denoised target_kl huber_delta "
        "max_ratio max_weight initial_alpha",
        "it must be above 0",
        lambda x: x > 0,
    ),
    (
        "n_action_steps policy_delay eval_rows num_samples num_target_critics num_critics "
        "scheduled_sampling_decay_steps depth num_elites n_epochs horizon eval_horizons latent_dim ensemble_size "
        "minibatch_size num_mixtures n_step num_noise_samples n_obs_steps patience lr_patience target_every "
        "num_target_samples",
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
