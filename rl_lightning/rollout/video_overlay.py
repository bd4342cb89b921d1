"""What a world model sees and dreams while the real game is filmed."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rl_lightning.evolution.dream_rollout import DreamState, dream_step
from rl_lightning.evolution.fitness import Population

SEED = 0


class DreamOverlay:
    """Told of the frames of one episode, it draws two pictures for each: the frame through the auto-encoder, and the
    dream that began with the first frame. A dream that is over goes dark.

    Args:
        players: The one who plays, and its world.
        device: Where the world is.
        temperature: Of the dream.
    """

    def __init__(self, players: Population, device: torch.device, temperature: float = 1.0) -> None:
        self.players, self.device, self.temperature = players, device, temperature
        self.generator = torch.Generator().manual_seed(SEED)
        self.state: DreamState | None = None
        self.over = False

    @torch.no_grad()
    def __call__(self, obs: Tensor) -> list[np.ndarray]:
        world = self.players.world
        code = world.vision(obs.to(self.device)).mean
        if self.state is None:
            self.state = DreamState(code[None], world.memory.initial_carry(1))
        else:
            self.state, _, ended = dream_step(
                world, self.players.controller, self.players.params, self.state, self.temperature, self.generator,
                self.players.use_cell, 0.5,
            )  # fmt: skip
            self.over |= bool(ended.any())
        dreamed = picture(world.vision.decode(self.state.code[0]))
        return [picture(world.vision.decode(code)), dreamed // 4 if self.over else dreamed]


def picture(frame: Tensor) -> np.ndarray:
    """A decoded frame for people.  [1, C, H, W] in [0, 1] -> [H, W, 3] bytes"""
    shown = (frame[0].clamp(0.0, 1.0) * 255.0).byte().cpu().permute(1, 2, 0).numpy()
    return shown.repeat(3, axis=2) if shown.shape[2] == 1 else shown[:, :, :3]
