"""When an imagined episode ends, where nobody says it: by the env that the data name, or never."""

from __future__ import annotations

from rl_lightning.datasets.dataset import Dataset
from rl_lightning.envs.termination import NoTermination, Termination, termination_for
from rl_lightning.errors import ConfigError


def end_rule(rows: Dataset, env_id: str) -> Termination | None:
    """The rule of the env, None where it has none and no row is terminal; terminals without a rule are refused.

    Args:
        rows: What was recorded.
        env_id: Of the env; empty where none is known.
    """
    try:
        return termination_for(env_id)
    except ConfigError:
        ends = int(rows.terminated.sum())
    if ends == 0:
        return None
    raise ConfigError(
        f"{rows.name}: {ends} of {rows.rows} rows are terminal, and no rule says when an imagined episode ends. Give "
        "one:\n--data.termination NoTermination (imagined episodes never end), a known one such as "
        "HopperTermination, or your own with --import (docs/extending.md)"
    )


def rule_or_never(rule: Termination | None) -> Termination:
    """Data without any terminal never end an imagined episode."""
    return rule or NoTermination()
