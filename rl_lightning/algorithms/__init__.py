"""The algorithms; importing this package is what makes their names known to a YAML."""

from rl_lightning.algorithms.diffusion.behavior_diffusion import BehaviorDiffusion
from rl_lightning.algorithms.diffusion.dice import DiceGuidance
from rl_lightning.algorithms.diffusion.diffusion_policy import DiffusionPolicy
from rl_lightning.algorithms.diffusion.diffusion_ql import DiffusionQL
from rl_lightning.algorithms.diffusion.fql import FQL
from rl_lightning.algorithms.model_module import ModelModule
from rl_lightning.algorithms.models.density import Density
from rl_lightning.algorithms.models.dynamics import Dynamics
from rl_lightning.algorithms.offline.bc import BC
from rl_lightning.algorithms.offline.bcq import BCQ
from rl_lightning.algorithms.offline.combo import COMBO
from rl_lightning.algorithms.offline.cql import CQL
from rl_lightning.algorithms.offline.decision_transformer import DecisionTransformer
from rl_lightning.algorithms.offline.discrete_cql import DiscreteCQL
from rl_lightning.algorithms.offline.discrete_iql import DiscreteIQL
from rl_lightning.algorithms.offline.edac import EDAC
from rl_lightning.algorithms.offline.ensemble_mpc import EnsembleMPC
from rl_lightning.algorithms.offline.fqe import FQE
from rl_lightning.algorithms.offline.iql import IQL
from rl_lightning.algorithms.offline.mobile import MOBILE
from rl_lightning.algorithms.offline.rebrac import ReBRAC
from rl_lightning.algorithms.offline.td3_bc import TD3_BC
from rl_lightning.algorithms.online.discrete_sac import DiscreteSAC
from rl_lightning.algorithms.online.dqn import DQN
from rl_lightning.algorithms.online.ppo import PPO
from rl_lightning.algorithms.online.qrdqn import QRDQN
from rl_lightning.algorithms.online.random_policy import RandomPolicy
from rl_lightning.algorithms.online.sac import SAC
from rl_lightning.algorithms.online.td3 import TD3
from rl_lightning.algorithms.policy_module import PolicyModule
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.algorithms.worlds.dreamer import Dreamer
from rl_lightning.algorithms.worlds.episode_recorder import EpisodeRecorder
from rl_lightning.algorithms.worlds.evolutionary_controller import EvolutionaryController
from rl_lightning.algorithms.worlds.mdn_rnn import MDNRNN
from rl_lightning.algorithms.worlds.next_frame import NextFrame
from rl_lightning.algorithms.worlds.planet import PlaNet
from rl_lightning.algorithms.worlds.reward_model import RewardModel
from rl_lightning.algorithms.worlds.tdmpc import TDMPC
from rl_lightning.algorithms.worlds.tdmpc2 import TDMPC2
from rl_lightning.algorithms.worlds.vae import VAE

__all__ = [
    "BC",
    "BCQ",
    "COMBO",
    "CQL",
    "DQN",
    "EDAC",
    "FQE",
    "FQL",
    "IQL",
    "MDNRNN",
    "MOBILE",
    "PPO",
    "QRDQN",
    "SAC",
    "TD3",
    "TD3_BC",
    "TDMPC",
    "TDMPC2",
    "VAE",
    "BehaviorDiffusion",
    "DecisionTransformer",
    "Density",
    "DiceGuidance",
    "DiffusionPolicy",
    "DiffusionQL",
    "DiscreteCQL",
    "DiscreteIQL",
    "DiscreteSAC",
    "Dreamer",
    "Dynamics",
    "EnsembleMPC",
    "EpisodeRecorder",
    "EvolutionaryController",
    "ModelModule",
    "NextFrame",
    "PlaNet",
    "PolicyModule",
    "RLModule",
    "RandomPolicy",
    "ReBRAC",
    "RewardModel",
]
