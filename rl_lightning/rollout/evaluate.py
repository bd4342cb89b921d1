"""Playing n episodes with a fixed agent, without touching anything that trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rl_lightning import interrupt
from rl_lightning.functional.scores import iqm
from rl_lightning.rollout.collect import Act, episode_stats, to_array, zero_rows
from rl_lightning.types import Carry, EpisodeStats


def evaluate(
    act: Act,
    initial_carry: Callable[[int], Carry],
    envs: Any,
    episodes: int,
    seed: int,
    explore: torch.Generator | None = None,
) -> list[EpisodeStats]:
    """Plays `episodes` episodes on a vector of envs that was reset with `seed`.

    Every env plays a quota fixed beforehand: taking the first episodes to finish would favour short ones.
    """
    num = envs.num_envs
    quota = np.array([len(range(i, episodes, num)) for i in range(num)])
    played: list[list[EpisodeStats]] = [[] for _ in range(num)]
    obs, infos = envs.reset(seed=seed)
    carry = initial_carry(num)
    with torch.no_grad():
        while any(len(done) < want for done, want in zip(played, quota, strict=True)):
            interrupt.poll()
            mask = torch.from_numpy(infos["action_mask"].copy()) if envs.env_spec.action_mask else None
            action, carry = act(torch.from_numpy(obs.copy()), carry, explore, mask)
            obs, _, terminated, truncated, infos = envs.step(to_array(action))
            ended = terminated | truncated
            if ended.any():
                carry = zero_rows(carry, ended)
                for n in np.flatnonzero(ended):
                    if len(played[n]) < quota[n]:
                        first = seed + int(n) if not played[n] else None  # later ones go on from there
                        played[n].append(episode_stats(infos["episode"], int(n), first))
    rounds = range(int(quota.max()))
    return [played[n][k] for k in rounds for n in range(num) if k < len(played[n])]


def summarize(episodes: Sequence[EpisodeStats]) -> dict[str, float]:
    """What an evaluation says, under the names it is logged by."""
    returns = np.array([episode.episode_return for episode in episodes])
    lengths = np.array([episode.length for episode in episodes])
    summary = {
        "eval/return": float(returns.mean()),
        "eval/return_std": float(returns.std()),
        "eval/return_min": float(returns.min()),
        "eval/return_max": float(returns.max()),
        "eval/return_iqm": float(iqm(returns)),
        "eval/length": float(lengths.mean()),
        "eval/episodes": float(len(episodes)),
    }
    return summary | {f"eval/{key}": value for key, value in extra_means(episodes).items()}


def extra_means(episodes: Sequence[EpisodeStats]) -> dict[str, float]:
    """Means of what the env reported, each over the episodes that reported it."""
    keys = sorted({key for episode in episodes for key in episode.extra})
    found = {
        key: [e.extra[key] for e in episodes if not math.isnan(e.extra.get(key, math.nan))] for key in keys
    }
    return {key: sum(values) / len(values) for key, values in found.items() if values}
