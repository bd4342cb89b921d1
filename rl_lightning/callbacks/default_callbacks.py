"""The callbacks of every run, in the order they must act."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightning.pytorch import Callback

from rl_lightning.callbacks.dataset_provenance import DatasetProvenance
from rl_lightning.callbacks.debug import DebugMonitor
from rl_lightning.callbacks.evaluation_history import EvaluationHistory
from rl_lightning.callbacks.final_metrics import FinalMetrics
from rl_lightning.callbacks.open_loop_prediction import OpenLoopPrediction
from rl_lightning.callbacks.progress_bar import RunProgressBar
from rl_lightning.callbacks.run_controller import RunController
from rl_lightning.callbacks.video_recorder import VideoRecorder
from rl_lightning.checkpoints.run_checkpoint import RunCheckpoint
from rl_lightning.loggers.make_loggers import LogConfig
from rl_lightning.trainer.fit_clock import FitClock
from rl_lightning.trainer.metrics_logger import MetricsLogger


def default_callbacks(
    folder: Path,
    log: LogConfig,
    report: Callable[..., None] | None = None,
    title: str = "",
    debug: DebugMonitor | None = None,
    resume_from: Path | None = None,
    changed: bool = False,
) -> list[Callback]:
    """Tell the time, emit, keep evaluations, stop, show, and save last of all (Lightning itself sees to that)."""
    metrics, evaluation, control = (
        MetricsLogger(log.every),
        EvaluationHistory(str(folder)),
        RunController(report),
    )
    listed: list[Callback] = [FitClock(), DatasetProvenance(report), metrics, evaluation]
    if log.video_every:
        listed.append(VideoRecorder(str(folder), log.video_every))
    if log.open_loop_every:
        listed.append(OpenLoopPrediction(str(folder), log.open_loop_every))
    if debug is not None:
        listed.append(debug)
    saving = RunCheckpoint(
        str(folder / "checkpoints"), exact_best=False, ckpt_path=str(resume_from) if resume_from else None,
        save_on_start=changed,
    )  # fmt: skip
    return [
        *listed,
        control,
        FinalMetrics(metrics, control),
        RunProgressBar(metrics, evaluation, title),
        saving,
    ]
