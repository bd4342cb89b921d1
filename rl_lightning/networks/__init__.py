"""Networks: shapes only, no devices, no optimizers' state. Importing this registers every recipe."""

from rl_lightning.networks.base import FeedForward, Network, Torso
from rl_lightning.networks.cnn import CNN, NatureCNN, PaletteCNN, SmallCNN
from rl_lightning.networks.laprop import LaProp
from rl_lightning.networks.mlp import MLP
from rl_lightning.networks.optim import SGD, Adafactor, Adam, AdamW, OptimizerRecipe, RMSprop
from rl_lightning.networks.rnn import RNN
from rl_lightning.networks.transformer import WindowTransformer

__all__ = [
    "CNN",
    "MLP",
    "RNN",
    "SGD",
    "Adafactor",
    "Adam",
    "AdamW",
    "FeedForward",
    "LaProp",
    "NatureCNN",
    "Network",
    "OptimizerRecipe",
    "PaletteCNN",
    "RMSprop",
    "SmallCNN",
    "Torso",
    "WindowTransformer",
]
