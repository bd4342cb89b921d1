"""The DataModules; importing this package is what makes their names known to a YAML."""

from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.datamodules.episode_recorder_data import RecordingData
from rl_lightning.datamodules.evolution_data import EvolveData
from rl_lightning.datamodules.frame_data import CollectFrames, FrameWindows, RewardSteps
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datamodules.on_policy_data import OnPolicyData
from rl_lightning.datamodules.online_data import OnlineData
from rl_lightning.datamodules.recorded_episodes_data import RecordedData
from rl_lightning.datamodules.sequence_data import SequenceData
from rl_lightning.datamodules.simulated_data import SimulatedData, SimulatedReplay
from rl_lightning.datamodules.window_data import WindowData

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
