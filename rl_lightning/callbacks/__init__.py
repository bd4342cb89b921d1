"""What surrounds training: emitting, evaluating, saving, showing, stopping."""

from rl_lightning.callbacks.alerts import Alerts
from rl_lightning.callbacks.checkpoint import SaveCheckpoints
from rl_lightning.callbacks.closing import Close
from rl_lightning.callbacks.control import Control, TellTime
from rl_lightning.callbacks.debug import Debug
from rl_lightning.callbacks.defaults import default_callbacks
from rl_lightning.callbacks.dream import RecordDream
from rl_lightning.callbacks.dreams import ShowDreams
from rl_lightning.callbacks.evaluation import Evaluate
from rl_lightning.callbacks.guard import Guard
from rl_lightning.callbacks.loggers import LogConfig, Titles, make_loggers
from rl_lightning.callbacks.metrics import EmitMetrics
from rl_lightning.callbacks.phases import Phases
from rl_lightning.callbacks.progress import Progress
from rl_lightning.callbacks.video import RecordVideo

__all__ = [
    "Alerts",
    "Close",
    "Control",
    "Debug",
    "EmitMetrics",
    "Evaluate",
    "Guard",
    "LogConfig",
    "Phases",
    "Progress",
    "RecordDream",
    "RecordVideo",
    "SaveCheckpoints",
    "ShowDreams",
    "TellTime",
    "Titles",
    "default_callbacks",
    "make_loggers",
]
