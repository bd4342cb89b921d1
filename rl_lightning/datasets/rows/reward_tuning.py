"""Rewards on a scale that offline learners were tuned for, made from the data set itself."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from rl_lightning.datasets.dataset import Dataset
from rl_lightning.errors import DataError

RANGE = 1000.0
LEGACY_STEPS = 1000


class RewardTuning(ABC):
    """Rewards that are learned from in place of the recorded ones."""

    @abstractmethod
    def tune(self, rows: Dataset) -> Tensor:
        """The new rewards.  -> [N]"""


class ReturnRange(RewardTuning):
    """Rewards times 1000 / (best return - worst return), as IQL and Diffusion-DICE have them for locomotion.

    Args:
        legacy: Find returns as the originals do on D4RL's files: rows at a time limit are left out, and an episode ends
            where it terminates or after 1000 of the rows that are left.
    """

    def __init__(self, legacy: bool = False) -> None:
        self.legacy = legacy

    def tune(self, rows: Dataset) -> Tensor:
        returns = legacy_returns(rows) if self.legacy else whole_returns(rows)
        spread = float(returns.max() - returns.min())
        if not spread > 0.0:
            raise DataError(
                f"{rows.name}: all {len(returns)} episodes have the return {float(returns[0]):.4g}, no range to "
                "scale by (ReturnRange).\nUse --data.reward_scale instead, or leave data.reward_tuning out"
            )
        return rows.reward * (RANGE / spread)


class GoalPenalty(RewardTuning):
    """0 where the recorded reward is above 0, and -1 elsewhere: every step until the goal costs (AntMaze)."""

    def tune(self, rows: Dataset) -> Tensor:
        return torch.where(rows.reward > 0.0, 0.0, -1.0)


def whole_returns(rows: Dataset) -> Tensor:
    """Returns of the episodes; of a recording that broke off, without the last one, which would be the worst."""
    returns = rows.returns()
    return returns[:-1] if rows.broken_off and len(returns) > 1 else returns


def legacy_returns(rows: Dataset) -> Tensor:
    """Returns of stretches that end at a terminal or after 1000 rows; what is left over at the end does not count."""
    selected = ~(rows.truncated & ~rows.terminated)
    if "read/next_observations" in rows.about:  # the rows at time limits are gone already
        selected = torch.ones_like(selected)
    returns, total, length = [], 0.0, 0
    pairs = zip(rows.reward[selected].double().tolist(), rows.terminated[selected].tolist(), strict=True)
    for reward, terminated in pairs:
        total, length = total + reward, length + 1
        if terminated or length == LEGACY_STEPS:
            returns.append(total)
            total, length = 0.0, 0
    return torch.tensor(returns or [total], dtype=torch.float64)
