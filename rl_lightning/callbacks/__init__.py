"""What surrounds training: emitting, evaluating, saving, showing, stopping."""

from rl_lightning.callbacks.alerts import Alerts
from rl_lightning.callbacks.debug import DebugMonitor
from rl_lightning.callbacks.default_callbacks import default_callbacks
from rl_lightning.callbacks.evaluation_history import EvaluationHistory
from rl_lightning.callbacks.final_metrics import FinalMetrics
from rl_lightning.callbacks.frame_prediction_video import FramePredictionVideo
from rl_lightning.callbacks.nonfinite_guard import NonFiniteGuard
from rl_lightning.callbacks.open_loop_prediction import OpenLoopPrediction
from rl_lightning.callbacks.phase_callback import Phases
from rl_lightning.callbacks.progress_bar import RunProgressBar
from rl_lightning.callbacks.run_controller import RunController
from rl_lightning.callbacks.video_recorder import VideoRecorder
from rl_lightning.checkpoints.run_checkpoint import RunCheckpoint
from rl_lightning.loggers.make_loggers import LogConfig, Titles, make_loggers
from rl_lightning.trainer.fit_clock import FitClock
from rl_lightning.trainer.metrics_logger import MetricsLogger

__all__ = [
    "Alerts",
    "DebugMonitor",
    "EvaluationHistory",
    "FinalMetrics",
    "FitClock",
    "FramePredictionVideo",
    "LogConfig",
    "MetricsLogger",
    "NonFiniteGuard",
    "OpenLoopPrediction",
    "Phases",
    "RunCheckpoint",
    "RunController",
    "RunProgressBar",
    "Titles",
    "VideoRecorder",
    "default_callbacks",
    "make_loggers",
]
