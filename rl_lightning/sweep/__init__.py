"""Sweeps: a grid of settings, or settings drawn by Optuna, trained by as many workers as there are."""

from rl_lightning.sweep.definition import SweepDefinition, read_definition
from rl_lightning.sweep.tuner import AutoTuner

__all__ = ["AutoTuner", "SweepDefinition", "read_definition"]
