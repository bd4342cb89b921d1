"""Playing n episodes with a fixed agent, without touching anything that trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rl_lightning import stop_request
from rl_lightning.functional.score_statistics import iqm
from rl_lightning.rollout.collect import ActFn, add_reward, episode_stats, reset_carry_rows, to_array
from rl_lightning.types import Carry, EpisodeStats

LEAST_CUT = 10_000  # env steps that an episode always may take
CUT_FACTOR = 20  # and so many times the longest that ended by itself


class StepCap:
    """Ends episodes that an env without a time limit would never end.

    Args:
        envs: Vector of envs of an evaluation.
        given: `run.eval_max_steps`: cuts after so many env steps, whatever the env declares; null: only envs that
            declare no limit are cut.
        longest: Env steps of the longest episode that is known to have ended by itself.
    """

    def __init__(self, envs: Any, given: int | None = None, longest: int = 0) -> None:
        self.envs, self.given, self.longest = envs, given, longest
        self.steps = given if given is not None else self._default()
        envs.cut_after(self.steps)

    def _default(self) -> int | None:
        return None if self.envs.own_limit() is not None else max(LEAST_CUT, CUT_FACTOR * self.longest)

    def see(self, episode: EpisodeStats) -> None:
        """An episode that ended by itself shows how long they can be."""
        if episode.cut or episode.length <= self.longest:
            return
        self.longest = episode.length
        if self.given is None and self.steps is not None and CUT_FACTOR * self.longest > self.steps:
            self.steps = CUT_FACTOR * self.longest
            self.envs.cut_after(self.steps)

    @property
    def note(self) -> str | None:
        """What a user is told before the first episode of an env that may never end one."""
        if self.steps is None or self.given is not None:
            return None
        return (
            f"note: {self.envs.env_spec.env_id} declares no time limit; evaluation cuts an episode after "
            f"{self.steps} steps (--eval_max_steps N, or --data.env.max_episode_steps N)"
        )


def evaluate(
    act: ActFn,
    initial_carry: Callable[[int], Carry],
    envs: Any,
    episodes: int,
    seed: int,
    generator: torch.Generator | None = None,
    cap: StepCap | None = None,
    reward_carry: int | None = None,
) -> list[EpisodeStats]:
    """Plays `episodes` episodes on a vector of envs that was reset with `seed`.

    Every env plays a quota fixed beforehand: taking the first episodes to finish would favour short ones. Without a
    `cap` an env that never ends an episode is played for ever. `reward_carry` is the part of the carry
    that adds up rewards.
    """
    num = envs.num_envs
    quota = np.array([len(range(i, episodes, num)) for i in range(num)])
    played: list[list[EpisodeStats]] = [[] for _ in range(num)]
    obs, infos = envs.reset(seed=seed)
    carry = initial_carry(num)
    with torch.no_grad():
        while any(len(done) < want for done, want in zip(played, quota, strict=True)):
            stop_request.raise_if_stopped()
            mask = torch.from_numpy(infos["action_mask"].copy()) if envs.env_spec.action_mask else None
            action, carry = act(torch.from_numpy(obs.copy()), carry, generator, mask)
            obs, reward, terminated, truncated, infos = envs.step(to_array(action))
            carry = add_reward(carry, reward_carry, reward)
            ended = terminated | truncated
            if ended.any():
                carry = reset_carry_rows(carry, ended)
                for n in np.flatnonzero(ended):
                    if len(played[n]) < quota[n]:
                        first = seed + int(n) if not played[n] else None  # later ones go on from there
                        played[n].append(episode_stats(infos["episode"], int(n), first))
                        if cap is not None:
                            cap.see(played[n][-1])
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
    if cut := sum(episode.cut for episode in episodes):
        summary["eval/cut"] = float(cut)
    return summary | {f"eval/{key}": value for key, value in extra_means(episodes).items()}


def extra_means(episodes: Sequence[EpisodeStats]) -> dict[str, float]:
    """Means of what the env reported, each over the episodes that reported it."""
    keys = sorted({key for episode in episodes for key in episode.extra})
    extras = {
        key: [e.extra[key] for e in episodes if not math.isnan(e.extra.get(key, math.nan))] for key in keys
    }
    return {key: sum(values) / len(values) for key, values in extras.items() if values}
