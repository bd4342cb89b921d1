"""Networks: shapes only, no devices. Importing this package is what makes their names known to a YAML."""

from rl_lightning.nn.cnn import CNN, NatureCNN, PaletteCNN, SmallCNN
from rl_lightning.nn.mlp import MLP
from rl_lightning.nn.multi_input import Embedding, MultiInput
from rl_lightning.nn.rnn import RNN
from rl_lightning.nn.torso import FeedForward, Network, Torso
from rl_lightning.nn.torsos.simba import SimBa
from rl_lightning.nn.transformer import WindowTransformer

__all__ = [
    "CNN",
    "MLP",
    "RNN",
    "Embedding",
    "FeedForward",
    "MultiInput",
    "NatureCNN",
    "Network",
    "PaletteCNN",
    "SimBa",
    "SmallCNN",
    "Torso",
    "WindowTransformer",
]
