"""Optimizers and schedules, as a config names them."""

from rl_lightning.optim.laprop import LaProp
from rl_lightning.optim.optimizers import SGD, Adafactor, Adam, AdamW, OptimizerFactory, RMSprop

__all__ = ["SGD", "Adafactor", "Adam", "AdamW", "LaProp", "OptimizerFactory", "RMSprop"]
