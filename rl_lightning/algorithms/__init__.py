"""The algorithms; importing this package is what makes their names known to a YAML."""

from rl_lightning.algorithms.dqn import DQN
from rl_lightning.algorithms.module import RLModule
from rl_lightning.algorithms.ppo import PPO
from rl_lightning.algorithms.random import RandomPolicy
from rl_lightning.algorithms.sac import SAC
from rl_lightning.algorithms.sac_discrete import DiscreteSAC

__all__ = ["DQN", "PPO", "SAC", "DiscreteSAC", "RLModule", "RandomPolicy"]
