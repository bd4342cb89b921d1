"""A model's imagination beside what really came: a table of errors by step, and a film."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from rl_lightning.envs.model_env.strip_chart import strip_chart
from rl_lightning.errors import ConfigError
from rl_lightning.io.text import number
from rl_lightning.models.imagined_windows import ImaginedWindows, longest_first, step_errors
from rl_lightning.rollout.simulated_env import ZOOM, picture
from rl_lightning.rollout.video import write_video
from rl_lightning.runs.agents.agent import LoadedAgent
from rl_lightning.seeding import derive

FPS, GAP = 4, 4
MOST_WINDOWS = 4  # that a film of pictures shows side by side
MOST_SIGNALS = 12  # that a film of numbers shows
FLAT = 0.01  # of its mean: the least spread that a number is drawn in units of
SMALL = 128  # pixels below which a picture is enlarged

Picture = NDArray[np.uint8]


def imagine_windows(agent: LoadedAgent, horizon: int) -> ImaginedWindows:
    """Real windows beside what the agent's own world makes of their starts."""
    model, data = agent.cli.model.eval(), agent.cli.datamodule
    data.connect(model, "test")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(derive(data.seed, "imagine"))
        windows = model.imagine_windows(data, horizon) or data.imagine_windows(horizon)
    if windows is None:
        raise ConfigError(
            f"{type(model).__name__} on {type(data).__name__} imagines nothing (no world model of its own, or no "
            f"episode of {horizon} steps); a learned model is named: --in RUN/dynamics"
        )
    cpu = {key: value.cpu() for key, value in windows._asdict().items() if isinstance(value, torch.Tensor)}
    return longest_first(windows._replace(**cpu))


def imagined_table(windows: ImaginedWindows) -> str:
    """A line for each step."""
    means, count, steps = step_errors(windows), len(windows.true), windows.error.shape[1]
    imagined = means.imagined_reward
    columns = ["step", "error", "held", "reward", *([] if imagined is None else ["imagined"]), "windows"]
    rows = [columns]
    for t in range(steps):
        if not int(means.windows[t]):
            break
        values = [
            means.error[t],
            means.held_error[t],
            means.reward[t],
            *([] if imagined is None else [imagined[t]]),
        ]
        rows.append([str(t + 1), *(number(float(v)) for v in values), str(int(means.windows[t]))])
    widths = [max(len(row[i]) for row in rows) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    head = f"imagined from {count} real starts, {windows.context} rows seen, then {steps} steps of the actions taken"
    unit = f"error: 1 is {windows.unit}; held: of what was seen last, held still"
    return "\n".join([head, *lines, unit])


def imagined_film(windows: ImaginedWindows, path: Path) -> Path:
    """Pictures: above what came, below what was imagined. Numbers: a strip each, imagined over what came."""
    frames = _pictures(windows) if windows.pictures else _strips(windows)
    return write_video(frames, path, FPS)


def _pictures(windows: ImaginedWindows) -> list[Picture]:
    frames = []
    for t in range(windows.true.shape[1]):
        columns = []
        for w in range(min(MOST_WINDOWS, len(windows.true))):
            true, imagined = (_shown(part[w, t], windows.colors) for part in (windows.true, windows.imagined))
            if not windows.same_episode[w, t]:
                imagined = np.zeros_like(imagined)
            columns += [
                np.concatenate([true, np.full((GAP, true.shape[1], 3), 90, np.uint8), imagined]),
                np.full((2 * len(true) + GAP, GAP, 3), 90, np.uint8),
            ]
        frames.append(np.concatenate(columns[:-1], 1))
    return frames


def _shown(image: torch.Tensor, colors: int) -> Picture:
    """Channels first, bytes or numbers from 0 to 1."""
    if image.dtype == torch.uint8 and image.shape[0] in (1, 3):
        shown: Picture = picture(image.numpy(), colors)
        return shown
    levels = image if image.dtype == torch.uint8 else (image.clamp(0, 1) * 255).round().byte()
    array = levels.numpy().transpose(1, 2, 0)
    array = np.repeat(array[..., -1:], 3, 2) if array.shape[2] % 3 else array[..., -3:]
    zoom = ZOOM if len(array) < SMALL else 1
    return np.ascontiguousarray(array.repeat(zoom, 0).repeat(zoom, 1))


def _strips(windows: ImaginedWindows) -> list[Picture]:
    signals = [*range(windows.true.shape[2])][:MOST_SIGNALS]
    true = windows.true[..., signals].numpy()
    mean = true.mean((0, 1))
    std = np.maximum(true.std((0, 1)), FLAT * np.abs(mean) + 1e-6)
    shown, imagined = true[0], windows.imagined[0][:, signals].numpy()
    goes_on = int(windows.same_episode[0].sum())
    return [
        strip_chart(shown[: t + 1], mean, std, len(shown) - 1, imagined[: min(t + 1, goes_on)])
        for t in range(len(shown))
    ]
