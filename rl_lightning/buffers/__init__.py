"""Replay buffers; importing this package is what makes their names known to a YAML."""

from rl_lightning.buffers.base import BufferRecipe, ReplayBuffer
from rl_lightning.buffers.prioritized import PrioritizedReplay
from rl_lightning.buffers.ring import Replay

__all__ = ["BufferRecipe", "PrioritizedReplay", "Replay", "ReplayBuffer"]
