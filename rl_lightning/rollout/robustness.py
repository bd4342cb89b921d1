"""How a policy that was trained clean fares behind noisy sensors and actuators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rl_lightning.envs.make import EnvConfig, make_envs, probe_spec
from rl_lightning.envs.wrappers.env_noise import EnvNoise
from rl_lightning.errors import ConfigError
from rl_lightning.functional.score_statistics import bootstrap_interval, mean
from rl_lightning.io.score_counts import is_few

KINDS = {"observations": (False, True), "actions": (True, False), "both": (True, True)}  # (actions, obs)
RATES = (0.1, 1.0)
SCALES = (0.01, 0.05, 0.1, 0.3)
MOST_ENVS = 16
UNSCALED = 1.0  # of noise that has no scale
TAIL = 0.1  # fraction of the worst episodes that the CVaR averages


class NoiseRow(NamedTuple):
    """One cell of the table."""

    kind: str  # what is disturbed; "none" for the clean row
    rate: float
    scale: float
    relative: bool  # the scale is a fraction of each observation's spread in the data
    episodes: int
    mean: float
    cvar: float  # mean of the worst tenth of the episodes
    low: float | None  # 95% interval of the mean; null of few episodes
    high: float | None
    length: float


def robustness(
    module: Any,
    env_config: EnvConfig,
    rates: Sequence[float] = RATES,
    scales: Sequence[float] = SCALES,
    kinds: Sequence[str] = ("observations", "actions"),
    episodes: int = 20,
    seed: int = 0,
    stds: Sequence[float] | None = None,
    max_steps: int | None = None,
) -> list[NoiseRow]:
    """A clean row, then one per kind, rate and scale. All start from the same seeds, so that rows can be compared.

    `stds` is the spread of each observation in the data: scales are then fractions of it. A rate or scale of 0 is the
    clean row, which is played once. `max_steps` is `run.eval_max_steps`.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ConfigError(f"noise on '{unknown[0]}' is unknown; choose from {', '.join(KINDS)}")
    if episodes < 1:
        raise ConfigError(f"episodes is {episodes}; it must be at least 1")
    rows = [_row(module, env_config, None, "none", episodes, seed, max_steps)]
    discrete = probe_spec(env_config).action_kind != "continuous"
    for kind, rate, scale in _cells(kinds, rates, scales, discrete):
        actions, observations = KINDS[kind]
        relative = stds is not None and observations
        std = [float(value) for value in stds] if stds is not None and relative else None
        noise = EnvNoise(actions, observations, rate, scale, relative, std)
        rows.append(_row(module, env_config, noise, kind, episodes, seed, max_steps))
    return rows


def _cells(
    kinds: Sequence[str], rates: Sequence[float], scales: Sequence[float], discrete: bool
) -> Iterator[tuple[str, float, float]]:
    """Discrete actions are drawn anew at a rate: their noise has no scale, and one row of each rate."""
    for kind in kinds:
        own = [UNSCALED] if discrete and kind == "actions" and any(scales) else scales
        yield from ((kind, float(rate), float(scale)) for rate in rates for scale in own if rate and scale)


def _row(
    module: Any,
    config: EnvConfig,
    noise: EnvNoise | None,
    kind: str,
    episodes: int,
    seed: int,
    max_steps: int | None,
) -> NoiseRow:
    envs = make_envs(replace(config, noise=noise), min(episodes, MOST_ENVS), "sync", training=False)
    try:
        played = module.run_episodes(envs, episodes, seed, max_steps)
    finally:
        envs.close()
    returns = [episode.episode_return for episode in played]
    low, high = (None, None) if is_few(len(returns)) else bootstrap_interval(returns, statistic=mean)
    rate, scale, relative = (
        (noise.noise_prob, noise.noise_std, noise.relative) if noise else (0.0, 0.0, False)
    )
    length = mean([episode.length for episode in played])
    return NoiseRow(kind, rate, scale, relative, len(played), mean(returns), cvar(returns), low, high, length)


def cvar(values: Sequence[float], share: float = TAIL) -> float:
    """Mean of the worst `share` of the values, rounded up to whole ones."""
    worst = np.sort(np.asarray(values, np.float64))[: math.ceil(share * len(values) - 1e-9)]
    return float(worst.mean())


def noise_table(rows: Sequence[NoiseRow]) -> str:
    """The rows as text, each compared with the clean one."""
    head = ("noise on", "rate", "scale", "mean", "95% interval", "CVaR 10%", "of clean", "length")
    clean = next((row.mean for row in rows if row.kind == "none"), None)
    table = [head, *(_cells_of(row, clean) for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in table
    ]
    return "\n".join(line.rstrip() for line in lines)


def _cells_of(row: NoiseRow, clean: float | None) -> tuple[str, ...]:
    # A fraction of a return that is not positive says nothing.
    share = f"{100.0 * row.mean / clean:.0f}%" if clean is not None and clean > 0.0 else "-"
    noisy = row.kind != "none"
    return (
        row.kind,
        f"{row.rate:g}" if noisy else "-",
        f"{row.scale:g}{' std' if row.relative else ''}" if noisy and row.scale != UNSCALED else "-",
        f"{row.mean:.2f}",
        "-" if row.low is None or row.high is None else f"{row.low:.2f} to {row.high:.2f}",
        f"{row.cvar:.2f}",
        share,
        f"{row.length:.1f}",
    )
