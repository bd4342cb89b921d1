"""The DataModules; importing this package is what makes their names known to a YAML."""

from rl_lightning.datamodules.evolve import EvolveData
from rl_lightning.datamodules.frames import CollectFrames, FrameWindows, RewardSteps
from rl_lightning.datamodules.model_rollout import ModelRolloutData
from rl_lightning.datamodules.module import RLData
from rl_lightning.datamodules.offline import OfflineData
from rl_lightning.datamodules.on_policy import OnPolicyData
from rl_lightning.datamodules.online import OnlineData
from rl_lightning.datamodules.recorded import RecordedData
from rl_lightning.datamodules.recording import RecordingData
from rl_lightning.datamodules.sequences import SequenceData
from rl_lightning.datamodules.simulated import SimulatedData, SimulatedReplay
from rl_lightning.datamodules.windows import WindowData

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
