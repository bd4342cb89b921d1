"""The algorithms; importing this package is what makes their names known to a YAML."""

from rl_lightning.algorithms.bc import BC
from rl_lightning.algorithms.bcq import BCQ
from rl_lightning.algorithms.behavior import BehaviorDiffusion
from rl_lightning.algorithms.density import Density
from rl_lightning.algorithms.dice import DiceGuidance
from rl_lightning.algorithms.diffusion_policy import DiffusionPolicy
from rl_lightning.algorithms.dqn import DQN
from rl_lightning.algorithms.dreamer import Dreamer
from rl_lightning.algorithms.dynamics import Dynamics
from rl_lightning.algorithms.ensemble_mpc import EnsembleMPC
from rl_lightning.algorithms.evolve import EvolveController
from rl_lightning.algorithms.fqe import FQE
from rl_lightning.algorithms.iql import IQL
from rl_lightning.algorithms.mdn_rnn import MDNRNN
from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.module import RLModule
from rl_lightning.algorithms.next_frame import NextFrame
from rl_lightning.algorithms.planet import PlaNet
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.ppo import PPO
from rl_lightning.algorithms.random import RandomPolicy
from rl_lightning.algorithms.record import Record
from rl_lightning.algorithms.reward import RewardHead
from rl_lightning.algorithms.sac import SAC
from rl_lightning.algorithms.sac_discrete import DiscreteSAC
from rl_lightning.algorithms.td3_bc import TD3_BC
from rl_lightning.algorithms.tdmpc import TDMPC
from rl_lightning.algorithms.tdmpc2 import TDMPC2
from rl_lightning.algorithms.vae import VAE

__all__ = [
    "BC",
    "BCQ",
    "DQN",
    "FQE",
    "IQL",
    "MDNRNN",
    "PPO",
    "SAC",
    "TD3_BC",
    "TDMPC",
    "TDMPC2",
    "VAE",
    "BehaviorDiffusion",
    "Density",
    "DiceGuidance",
    "DiffusionPolicy",
    "DiscreteSAC",
    "Dreamer",
    "Dynamics",
    "EnsembleMPC",
    "EvolveController",
    "ModelModule",
    "NextFrame",
    "PlaNet",
    "PolicyModule",
    "RLModule",
    "RandomPolicy",
    "Record",
    "RewardHead",
]
