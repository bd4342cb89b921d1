"""The equal sizes and rows of everyone in imagining.py: those of Hopper and of MOPO's policy stage."""

from __future__ import annotations

import numpy as np

OBS, ACTION = 11, 3
MEMBERS, ELITES, HIDDEN = 7, 5, [200, 200, 200, 200]
DECAY = [2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4]
LR, BATCH = 1e-3, 256
ROWS, HELD, BATCHES, QUICK_BATCHES = 200_000, 1000, 778, 60
COUPLINGS, FLOW_HIDDEN = 6, 256  # GORMPO's RealNVP
STARTS, QUICK_STARTS, HORIZON = 50_000, 5_000, 5


def rows() -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """(inputs, targets, (held-out inputs, their targets)) of a smooth noisy world that both learn."""
    draw = np.random.default_rng(1)
    inputs = draw.normal(size=(ROWS, OBS + ACTION)).astype(np.float32)
    inner = draw.normal(size=(OBS + ACTION, 32)).astype(np.float32) / 4.0
    outer = draw.normal(size=(32, OBS + 1)).astype(np.float32) / 6.0
    noise = draw.normal(size=(ROWS, OBS + 1)).astype(np.float32)
    targets = np.sin(inputs @ inner) @ outer + 0.05 * noise
    return inputs[HELD:], targets[HELD:], (inputs[:HELD], targets[:HELD])


def start(count: int) -> np.ndarray:
    """Standing states, from which weights as they start do not fall."""
    obs = 0.01 * np.random.default_rng(2).normal(size=(count, OBS)).astype(np.float32)
    obs[:, 0] += 1.25
    return obs
