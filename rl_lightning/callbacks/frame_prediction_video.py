"""A film of what a world foresees: what came, the dream beside it, and where the two differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, Trainer

from rl_lightning.checkpoints.run_checkpoint import RunCheckpoint
from rl_lightning.clock.run_clock import crossed_multiple
from rl_lightning.errors import ConfigError
from rl_lightning.loggers.media import log_video
from rl_lightning.ranges import PositiveInt
from rl_lightning.rollout.simulated_env import ZOOM, picture
from rl_lightning.rollout.video import write_video
from rl_lightning.trainer.access import data_of

FPS = 8
GAP = 4  # pixels between the three pictures


class FramePredictionVideo(Callback):
    """Films a held-out window each time the clock passes a multiple of `every`.

    Args:
        every: Interval on the run's clock.
        sequence_length: Steps of the window, fewer where no held-out episode has as many.
    """

    def __init__(self, every: int = 100, sequence_length: PositiveInt = 50) -> None:
        if every < 1 or sequence_length < 1:
            raise ConfigError(
                f"FramePredictionVideo: every {every} and length {sequence_length} must be positive"
            )
        self.every, self.sequence_length = every, sequence_length
        self.seen = 0

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, *args: Any) -> None:
        data = data_of(trainer)
        before, self.seen = self.seen, data.clock.now
        if not crossed_multiple(before, self.seen, self.every) or not trainer.is_global_zero:
            return
        training = pl_module.training
        pl_module.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            real, dream = pl_module.open_loop_frames(data, self.sequence_length)
        pl_module.train(training)
        frames = side_by_side(real.numpy(), dream.numpy(), pl_module.world.colors)
        path = write_video(frames, folder_of(trainer) / "videos" / f"dream-{self.seen}.mp4", FPS)
        log_video(trainer.loggers, "eval/open_loop_video", frames, path, FPS, self.seen)

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seen = state["seen"]


def folder_of(trainer: Trainer) -> Path:
    """The run's folder, which the callback that saves knows."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, RunCheckpoint):
            return callback.generations.folder.parent
    return Path(trainer.default_root_dir)


def side_by_side(real: np.ndarray, dream: np.ndarray, colors: int) -> list[np.ndarray]:
    """Real, dreamed, and white where they differ.  [T, C, H, W] twice -> [H, W, 3] each"""
    films = []
    for truth, predicted in zip(real, dream, strict=True):
        wrong = (truth != predicted).any(0).repeat(ZOOM, 0).repeat(ZOOM, 1)
        parts = [
            picture(truth, colors),
            picture(predicted, colors),
            np.repeat(wrong[..., None], 3, 2) * np.uint8(255),
        ]
        gap = np.full((len(wrong), GAP, 3), 90, np.uint8)
        films.append(np.concatenate([parts[0], gap, parts[1], gap, parts[2]], 1))
    return films
