"""`rl test --noise`: the same policy behind noisy sensors and actuators."""

from __future__ import annotations

from collections.abc import Sequence

from rl_lightning.errors import ConfigError
from rl_lightning.rollout.robustness import RATES, SCALES, NoiseRow, noise_table, robustness
from rl_lightning.runs.agents.agent import LoadedAgent

__all__ = ["RATES", "SCALES", "noise_grid", "noise_table"]


def noise_grid(
    agent: LoadedAgent, episodes: int, rates: Sequence[float], scales: Sequence[float]
) -> list[NoiseRow]:
    """A row per kind, rate and scale; scales are fractions of the data's standard deviation, if there are data."""
    data = agent.cli.datamodule
    if getattr(data, "env", None) is None:
        raise ConfigError("--noise needs an env to play in; give one: --data.env.id Hopper-v5")
    rows = getattr(data, "dataset", None)
    stds = None if rows is None else rows.obs.std(0).tolist()
    limit = data.clock.run.eval_max_steps
    return robustness(agent.cli.model, data.env, rates, scales, episodes=episodes, stds=stds, max_steps=limit)
