"""The callbacks of every run, in the order they must act."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightning.pytorch import Callback

from rl_lightning.callbacks.checkpoint import Restore, SaveCheckpoints
from rl_lightning.callbacks.closing import Close
from rl_lightning.callbacks.control import Control, TellTime
from rl_lightning.callbacks.debug import Debug
from rl_lightning.callbacks.dreams import ShowDreams
from rl_lightning.callbacks.evaluation import Evaluate
from rl_lightning.callbacks.loggers import LogConfig
from rl_lightning.callbacks.metrics import EmitMetrics
from rl_lightning.callbacks.progress import Progress
from rl_lightning.callbacks.provenance import RecordData
from rl_lightning.callbacks.video import RecordVideo


def default_callbacks(
    folder: Path,
    log: LogConfig,
    report: Callable[..., None] | None = None,
    title: str = "",
    debug: bool = False,
    resume_from: Path | None = None,
    changed: bool = False,
) -> list[Callback]:
    """Load, time, emit, evaluate, decide whether to stop, save, close, show: each needs what those before it found."""
    metrics, evaluation, control = EmitMetrics(log.every), Evaluate(str(folder)), Control(report)
    saving = SaveCheckpoints(str(folder), evaluation, str(resume_from) if resume_from else None, changed)
    found: list[Callback] = [Restore(saving), TellTime(), RecordData(report), metrics, evaluation]
    if log.videos:
        found.append(RecordVideo(str(folder), log.videos))
    if log.dreams:
        found.append(ShowDreams(str(folder), log.dreams))
    if debug:
        found.append(Debug(str(folder)))
    closing = Close(metrics, evaluation, saving, control)
    return [*found, control, saving, closing, Progress(metrics, evaluation, title)]
