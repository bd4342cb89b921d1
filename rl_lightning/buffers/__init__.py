"""Replay buffers; importing this package is what makes their names known to a YAML."""

from rl_lightning.buffers.base import BufferRecipe, ReplayBuffer
from rl_lightning.buffers.prioritized import PrioritizedReplay
from rl_lightning.buffers.ring import Replay
from rl_lightning.buffers.sequence import SequenceReplay
from rl_lightning.buffers.windows import (
    EpisodeWindows,
    PrioritizedWindows,
    RecentWindows,
    UniformWindows,
    Windows,
)

__all__ = [
    "BufferRecipe",
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
