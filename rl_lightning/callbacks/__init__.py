"""What surrounds training: emitting, evaluating, saving, showing, stopping."""

from rl_lightning.callbacks.alerts import Alerts
from rl_lightning.callbacks.checkpoint import RunCheckpoint
from rl_lightning.callbacks.closing import FinalMetrics
from rl_lightning.callbacks.control import RunController
from rl_lightning.callbacks.debug import Debug
from rl_lightning.callbacks.defaults import default_callbacks
from rl_lightning.callbacks.dream import RecordDream
from rl_lightning.callbacks.dreams import ShowDreams
from rl_lightning.callbacks.evaluation import EvaluationHistory
from rl_lightning.callbacks.guard import Guard
from rl_lightning.callbacks.loggers import LogConfig, Titles, make_loggers
from rl_lightning.callbacks.phases import Phases
from rl_lightning.callbacks.progress import Progress
from rl_lightning.callbacks.video import RecordVideo
from rl_lightning.trainer.fit_clock import FitClock
from rl_lightning.trainer.metrics_logger import MetricsLogger

__all__ = [
    "Alerts",
    "Debug",
    "EvaluationHistory",
    "FinalMetrics",
    "FitClock",
    "Guard",
    "LogConfig",
    "MetricsLogger",
    "Phases",
    "Progress",
    "RecordDream",
    "RecordVideo",
    "RunCheckpoint",
    "RunController",
    "ShowDreams",
    "Titles",
    "default_callbacks",
    "make_loggers",
]
