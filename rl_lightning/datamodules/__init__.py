"""The DataModules; importing this package is what makes their names known to a YAML."""

from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.datamodules.episode_recorder_data import EpisodeRecorderData
from rl_lightning.datamodules.evolution_data import EvolutionData
from rl_lightning.datamodules.frame_data import FrameCollectionData, FrameWindowData, RewardStepData
from rl_lightning.datamodules.model_rollout_data import ModelRolloutData
from rl_lightning.datamodules.offline_data import OfflineData
from rl_lightning.datamodules.on_policy_data import OnPolicyData
from rl_lightning.datamodules.online_data import OnlineData
from rl_lightning.datamodules.recorded_episodes_data import RecordedEpisodesData
from rl_lightning.datamodules.sequence_data import SequenceData
from rl_lightning.datamodules.simulated_data import SimulatedData, SimulatedReplayData
from rl_lightning.datamodules.trajectory_data import TrajectoryData
from rl_lightning.datamodules.window_data import WindowData

__all__ = [
    "EpisodeRecorderData",
    "EvolutionData",
    "FrameCollectionData",
    "FrameWindowData",
    "ModelRolloutData",
    "OfflineData",
    "OnPolicyData",
    "OnlineData",
    "RLData",
    "RecordedEpisodesData",
    "RewardStepData",
    "SequenceData",
    "SimulatedData",
    "SimulatedReplayData",
    "TrajectoryData",
    "WindowData",
]
