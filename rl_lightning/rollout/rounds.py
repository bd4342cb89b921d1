"""Evaluation as a validation loop: one batch is one round of episodes, or the rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from rl_lightning.types import EpisodeStats

ROUND = 16  # episodes of one round, each in an env of its own


@dataclass
class EvaluationRound:
    """One batch of the validation loop.

    Args:
        source: The data, for modules that are evaluated on held-out rows.
        envs: Where episodes are played; None: there is no env.
        episodes: How many of them.
        seed: Of envs and policy.
        max_steps: An episode is cut after so many env steps; null: only where the env has no limit.
        longest: Env steps of the longest episode that is known to have ended by itself.
        scores: More numbers about an evaluation, e.g. its return on a data set's own scale.
        report: Takes the episodes that were played.
    """

    source: Any
    envs: Any
    episodes: int
    seed: int
    max_steps: int | None
    longest: int
    scores: Callable[[dict[str, float]], dict[str, float]]
    report: Callable[[list[EpisodeStats]], None]

    def __iter__(self) -> Iterator[Tensor]:
        """How Lightning learns the size of a batch, where a module logs means over them."""
        yield torch.zeros(self.episodes)


class RoundMaker(Protocol):
    """Who makes the rounds."""

    @property
    def evaluates(self) -> bool: ...
    def evaluation_episodes(self) -> int: ...
    def evaluation_round(self, first: int, episodes: int) -> EvaluationRound: ...


class EvaluationRounds:
    """The rounds of one evaluation, made when they are played.

    Args:
        data: Makes them.
        count: How many; the last one takes all episodes that are left.
        size: Episodes of each round before it.
    """

    def __init__(self, data: RoundMaker, count: int, size: int = ROUND) -> None:
        self.data, self.count, self.size = data, count, size

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[EvaluationRound]:
        left = self.data.evaluation_episodes() if self.data.evaluates else 0
        for number in range(self.count):
            episodes = left if number + 1 == self.count else min(left, self.size)
            if episodes > 0:
                yield self.data.evaluation_round(number * self.size, episodes)
            left -= episodes
