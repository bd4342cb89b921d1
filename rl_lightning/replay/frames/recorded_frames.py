"""Recorded episodes as frames, as if they had just been collected."""

from __future__ import annotations

from collections.abc import Iterator

from rl_lightning.datasets.dataset import Dataset
from rl_lightning.datasets.formats.pictures import Frames
from rl_lightning.replay.frames.frame_log import FrameLog
from rl_lightning.replay.recorded_sequences import episode_steps
from rl_lightning.types import EnvSpec, Steps


def log_of_dataset(rows: Dataset, spec: EnvSpec, palette: Frames | None = None) -> FrameLog:
    """One collection of all episodes, each frame kept once.

    Args:
        rows: What was recorded: pictures and discrete actions.
        spec: Of the env that the frames are of.
        palette: RGB of each index that a pixel may be; null: pixels are levels.
    """
    log = FrameLog(spec, rows.rows + rows.episodes)
    for steps in recorded_episodes(rows, spec, palette):
        log.add(steps)
    log.parts = [0]
    return log


def recorded_episodes(rows: Dataset, spec: EnvSpec, palette: Frames | None = None) -> Iterator[Steps]:
    """Every episode as steps of one env."""
    ends = rows.lengths().cumsum(0).tolist()
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        yield episode_steps(rows, slice(start, end), spec, palette)
