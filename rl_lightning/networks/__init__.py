"""Networks: shapes only, no devices, no optimizers' state. Importing this registers every recipe."""

from rl_lightning.networks.base import FeedForward, Network, Torso
from rl_lightning.networks.cnn import CNN, NatureCNN, SmallCNN
from rl_lightning.networks.mlp import MLP
from rl_lightning.networks.optim import SGD, Adam, AdamW, OptimizerRecipe, RMSprop
from rl_lightning.networks.rnn import RNN
from rl_lightning.networks.transformer import WindowTransformer

__all__ = [
    "CNN",
    "MLP",
    "RNN",
    "SGD",
    "Adam",
    "AdamW",
    "FeedForward",
    "NatureCNN",
    "Network",
    "OptimizerRecipe",
    "RMSprop",
    "SmallCNN",
    "Torso",
    "WindowTransformer",
]
