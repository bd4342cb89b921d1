"""Images, videos and histograms for the loggers that can show them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch.loggers import Logger, TensorBoardLogger


def log_histogram(loggers: list[Logger], name: str, values: torch.Tensor, step: int) -> None:
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            logger.experiment.add_histogram(name, values.detach().float().cpu(), step)
        elif is_wandb(logger):
            import wandb

            histogram = wandb.Histogram(values.detach().float().flatten().tolist())
            _experiment(logger).log({name: histogram, _clock(logger): step})


def log_video(
    loggers: list[Logger], name: str, frames: list[np.ndarray], path: Path, fps: int, step: int
) -> None:
    """`frames` are [H, W, 3] uint8; TensorBoard gets them as an animated image, W&B gets the file."""
    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            _tensorboard_gif(logger, name, frames, fps, step)
        elif is_wandb(logger):
            import wandb

            _experiment(logger).log({name: wandb.Video(str(path), format="mp4"), _clock(logger): step})


def _tensorboard_gif(
    logger: TensorBoardLogger, name: str, frames: list[np.ndarray], fps: int, step: int
) -> None:
    """TensorBoard's own video summary needs moviepy; an encoded GIF in an image summary is what it would write."""
    import imageio.v3 as imageio
    from tensorboard.compat.proto.summary_pb2 import Summary

    every = max(1, len(frames) // 150)
    file = io.BytesIO()
    imageio.imwrite(file, frames[::every], extension=".gif", duration=1000 * every / fps, loop=0)
    height, width = frames[0].shape[:2]
    image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=file.getvalue())
    logger.experiment.file_writer.add_summary(Summary(value=[Summary.Value(tag=name, image=image)]), step)


def is_wandb(logger: Logger) -> bool:
    return type(logger).__name__ == "WandbLogger"


def _clock(logger: Logger) -> str:
    """The x-axis of a W&B run; one that the user made himself has ours by default."""
    return str(vars(logger).get("clock", "env_step"))


def _experiment(logger: Logger) -> Any:
    return logger.experiment  # type: ignore[attr-defined]
