"""A constructor called in Python names its arguments; called for a config it names the config's keys."""

import abc
import inspect
from functools import partial

import pytest

import rl_lightning as rl
from rl_lightning import algorithms
from rl_lightning.algorithms import BC, BCQ, IQL, PPO, SAC, TD3_BC, RLModule
from rl_lightning.datamodules import OnlineData, OnPolicyData, SequenceData
from rl_lightning.errors import ConfigError
from rl_lightning.types import EnvSpec

DISCRETE = EnvSpec("e", (2,), action_kind="discrete", action_sizes=(2,))
CONTINUOUS = EnvSpec("e", (2,), action_shape=(1,), action_low=(-1.0,), action_high=(1.0,))
CARTPOLE = {"id": "CartPole-v1"}

WRONG = [
    (partial(PPO, DISCRETE), "model", {"gamma": 1.5}, "gamma is 1.5; it lies between 0 and 1"),
    (partial(IQL, CONTINUOUS), "model", {"expectile": 1.0}, "expectile is 1.0; it must lie"),
    (partial(BC, CONTINUOUS), "model", {"loss": "l1"}, "loss is 'l1'; it must be an object: ImitationLoss"),
    (partial(SAC, CONTINUOUS), "model", {"alpha": -1.0}, "alpha is -1.0; it must be above 0"),
    (partial(SAC, CONTINUOUS), "model", {"num_target_critics": 3}, "num_target_critics is 3; it must lie"),
    (partial(BCQ, CONTINUOUS), "model", {"lmbda": 1.5}, "lmbda is 1.5"),
    (partial(TD3_BC, CONTINUOUS), "model", {"policy_delay": 0}, "policy_delay is 0"),
    (partial(OnPolicyData, "CartPole-v1"), "data", {"num_envs": 0}, "num_envs is 0; it must be at least 1"),
    (partial(OnPolicyData, "CartPole-v1"), "data", {"rollout_steps": 0}, "rollout_steps is 0"),
    (partial(OnlineData, "CartPole-v1"), "data", {"batch_size": 0}, "batch_size is 0"),
    (partial(SequenceData, "CartPole-v1"), "data", {"sequence_length": 0}, "sequence_length is 0"),
    (partial(OnPolicyData, "CartPole-v1"), "run", {"eval_every": 0}, "eval_every is 0; it must be positive"),
]


@pytest.mark.parametrize(("make", "group", "wrong", "said"), WRONG)
def test_python_names_the_argument(make, group, wrong, said):
    with pytest.raises(ConfigError) as caught:
        make(**wrong)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("config", "setting", "said"),
    [
        ("ppo/cartpole", {"model.gamma": 1.5}, "model.gamma is 1.5"),
        ("sac/pendulum", {"model.num_target_critics": 3}, "model.num_target_critics is 3"),
        ("ppo/cartpole", {"data.rollout_steps": 0}, "data.rollout_steps is 0"),
        ("ppo/cartpole", {"run.eval_every": 0}, "run.eval_every is 0"),
    ],
)
def test_a_config_names_its_key(config, setting, said, tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        rl.fit(config, setting, env_steps=64)
    assert str(caught.value).startswith(said)
    with pytest.raises(ConfigError, match=r"^gamma is 1\.5"):  # and Python is Python again afterwards
        PPO(DISCRETE, gamma=1.5)


def test_keys_of_others_stay():
    class Fussy(BC):
        def __init__(self, spec, width=1):
            raise ConfigError("model.width is 1 but data.num_envs is 2, see /x/model.width and model.other")

    with pytest.raises(ConfigError) as caught:
        Fussy(CONTINUOUS)
    assert str(caught.value) == "width is 1 but data.num_envs is 2, see /x/model.width and model.other"


@pytest.mark.parametrize("name", algorithms.__all__)
def test_signatures_of_modules_are_their_constructors(name):
    module = getattr(algorithms, name)
    if isinstance(module, type) and issubclass(module, RLModule):
        own = list(inspect.signature(module.__init__).parameters.values())[1:]
        assert list(inspect.signature(module).parameters.values()) == own and own[0].name == "spec"


def test_an_abstract_base_may_stand_beside():
    class Plays(abc.ABC):
        @abc.abstractmethod
        def perform(self): ...

    class Player(PPO, Plays):
        def perform(self):
            return 1

    class Unfinished(PPO, Plays):
        pass

    assert Player(DISCRETE).perform() == 1
    with pytest.raises(TypeError, match="abstract"):
        Unfinished(DISCRETE)
