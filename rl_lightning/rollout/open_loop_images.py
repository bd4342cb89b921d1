"""What was, what the model saw of it, and what it dreamed instead: as a picture, and as a video of pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from torch import Tensor

from rl_lightning.models.rssm.open_loop import OpenLoopRollout
from rl_lightning.rollout.video import write_video

MOST_LINES = 6  # dimensions of an observation that a picture shows
MOST_WINDOWS = 4  # that a video shows


def open_loop_figure(rollout: OpenLoopRollout, path: Path, window: int = 0) -> Path:
    """True, reconstructed and dreamed trajectory of one window."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pixels = rollout.true.dim() == 5
    path.parent.mkdir(parents=True, exist_ok=True)
    if pixels:
        frames = video_frames(rollout, windows=1)
        keep = np.linspace(0, len(frames) - 1, min(10, len(frames))).round().astype(int)
        figure, axis = pyplot.subplots(figsize=(1.2 * len(keep), 4))
        axis.imshow(np.concatenate([frames[k] for k in keep], 1), interpolation="nearest")
        axis.set_title(
            f"true · reconstructed · dreamed after {rollout.context} rows · difference (top to bottom)"
        )
        axis.axis("off")
    else:
        true, reconstructed, dreamed = (
            part[window].flatten(1) for part in (rollout.true, rollout.reconstructed, rollout.dreamed)
        )
        lines = min(MOST_LINES, true.shape[1])
        figure, axes = pyplot.subplots(lines, 1, figsize=(8, 1.6 * lines), sharex=True, squeeze=False)
        ahead = np.arange(rollout.context, len(true))
        for line in range(lines):
            axis = axes[line, 0]
            axis.plot(true[:, line], color="black", label="true")
            axis.plot(reconstructed[:, line], color="tab:blue", label="reconstructed")
            axis.plot(ahead, dreamed[:, line], color="tab:red", linestyle="--", label="dreamed")
            axis.axvline(rollout.context - 0.5, color="grey", linewidth=0.8)
            axis.set_ylabel(f"obs {line}")
        axes[0, 0].legend(loc="upper right", fontsize=8)
        axes[-1, 0].set_xlabel(f"row (the model sees the first {rollout.context})")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return path


def video_frames(rollout: OpenLoopRollout, windows: int = MOST_WINDOWS) -> list[np.ndarray]:
    """Frames [H, W, 3]: windows side by side; true, reconstructed, dreamed, and how the dream differs."""
    frames = []
    for t in range(rollout.true.shape[1]):
        dream = rollout.reconstructed if t < rollout.context else rollout.dreamed
        at = t if t < rollout.context else t - rollout.context
        columns = []
        for w in range(min(windows, len(rollout.true))):
            true, shown = rollout.true[w, t], dream[w, at]
            rows = [true, rollout.reconstructed[w, t], shown, (shown - true) / 2 + 0.5]
            columns.append(np.concatenate([_rgb(row) for row in rows], 0))
        frames.append(np.concatenate(columns, 1))
    return frames


def _rgb(image: Tensor) -> np.ndarray:
    array = (image.clamp(0, 1) * 255).round().byte().cpu().numpy().transpose(1, 2, 0)
    return np.repeat(array, 3, 2) if array.shape[2] == 1 else array[..., -3:]


def inside_episodes(rollout: OpenLoopRollout) -> OpenLoopRollout:
    """Windows whose episode lasts longest come first, and all are cut where the longest ends.

    What a dream shows when another episode has begun says nothing: nobody can predict how that one begins.
    """
    steps = rollout.same_episode.sum(1)
    if not steps.any():
        return rollout
    order, longest = steps.argsort(descending=True, stable=True), int(steps.max())
    whole, ahead = rollout.context + longest, longest
    return rollout._replace(
        true=rollout.true[order, :whole], reconstructed=rollout.reconstructed[order, :whole],
        dreamed=rollout.dreamed[order, :ahead], reward=rollout.reward[order, :ahead],
        dreamed_reward=rollout.dreamed_reward[order, :ahead], same_episode=rollout.same_episode[order, :ahead],
    )  # fmt: skip


def save_open_loop_images(rollout: OpenLoopRollout, folder: Path) -> list[Path]:
    """Writes the picture, and of pixels the video; returns what was written."""
    rollout = inside_episodes(rollout)
    written = [open_loop_figure(rollout, folder / "dream.png")]
    if rollout.true.dim() == 5:
        written.append(write_video(video_frames(rollout), folder / "videos" / "open-loop.mp4", fps=5))
    return written
