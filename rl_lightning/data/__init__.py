"""The DataModules; importing this package is what makes their names known to a YAML."""

from rl_lightning.data.evolve import EvolveData
from rl_lightning.data.frames import CollectFrames, FrameWindows, RewardSteps
from rl_lightning.data.model_rollout import ModelRolloutData
from rl_lightning.data.module import RLData
from rl_lightning.data.offline import OfflineData
from rl_lightning.data.on_policy import OnPolicyData
from rl_lightning.data.online import OnlineData
from rl_lightning.data.recorded import RecordedData
from rl_lightning.data.recording import RecordingData
from rl_lightning.data.sequences import SequenceData
from rl_lightning.data.simulated import SimulatedData, SimulatedReplay
from rl_lightning.data.windows import WindowData

__all__ = [
    "CollectFrames",
    "EvolveData",
    "FrameWindows",
    "ModelRolloutData",
    "OfflineData",
    "OnPolicyData",
    "OnlineData",
    "RLData",
    "RecordedData",
    "RecordingData",
    "RewardSteps",
    "SequenceData",
    "SimulatedData",
    "SimulatedReplay",
    "WindowData",
]
