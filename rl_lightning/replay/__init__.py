"""Replay buffers; importing this package is what makes their names known to a YAML."""

from rl_lightning.replay.her import HER
from rl_lightning.replay.prioritized import PrioritizedReplay
from rl_lightning.replay.replay_buffer import BufferFactory, ReplayBuffer
from rl_lightning.replay.ring import Replay
from rl_lightning.replay.sequence import SequenceReplay
from rl_lightning.replay.window_samplers import (
    EpisodeWindows,
    PrioritizedWindows,
    RecentWindows,
    UniformWindows,
    Windows,
)

__all__ = [
    "HER",
    "BufferFactory",
    "EpisodeWindows",
    "PrioritizedReplay",
    "PrioritizedWindows",
    "RecentWindows",
    "Replay",
    "ReplayBuffer",
    "SequenceReplay",
    "UniformWindows",
    "Windows",
]
