"""Terminals that are goals: AntMaze's files mark every step at the goal, and the recording goes on."""

from __future__ import annotations

import numpy as np

from rl_lightning.datasets.formats.raw import GOALS, Array, Raw


def goes_on(raw: Raw) -> bool:
    """Whether the terminals of a file mark goals that end no episode.

    A file may say so. Else all of it must hold: rewards equal terminals row by row; most goals are followed by another,
    or time limits lie equally far apart whatever goals lie between; and the step out of a goal row is no longer than
    other steps. Where episodes do end at their goals, the row behind one is a reset.
    """
    if GOALS in raw.metadata:
        return True
    arrays = raw.arrays
    terminated = np.asarray(arrays["terminals"]).reshape(-1).astype(bool)
    if not np.array_equal(np.asarray(arrays["rewards"]).reshape(-1), terminated):
        return False
    limits = np.asarray(arrays.get("timeouts", np.zeros(len(terminated)))).reshape(-1).astype(bool)
    goal, plain = (terminated & ~limits)[:-1], ~(terminated | limits)[:-1]
    if not goal.any() or not plain.any():
        return False
    in_runs = terminated[1:][goal].mean() > 0.5
    return bool(in_runs or _evenly(limits)) and _steps_on(arrays.get("observations"), goal, plain)


def _evenly(limits: Array) -> bool:
    lengths = np.diff(np.flatnonzero(limits), prepend=-1)
    return len(lengths) > 1 and bool((lengths == lengths[0]).all())


def _steps_on(obs: Array | None, goal: Array, plain: Array) -> bool:
    """Whether most steps out of goal rows are within the longest other ones; True where observations are not read."""
    if obs is None:
        return True
    change = np.abs(np.diff(obs, axis=0))
    return bool((change[goal] <= change[plain].max(0)).all(1).mean() > 0.5)
