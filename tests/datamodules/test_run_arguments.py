"""What a DataModule's signature says is what it takes: its own arguments, and the run's by keyword."""

import inspect

import pytest

from rl_lightning import datamodules
from rl_lightning.algorithms import SAC
from rl_lightning.datamodules import OnlineData, OnPolicyData, RLData
from rl_lightning.errors import ConfigError
from rl_lightning.trainer.contract import subclasses

RUN_ORDER = ["env_steps", "updates", "eval_every", "eval_episodes", "seed"]
RUN = {"env_steps": None, "updates": None, "eval_episodes": 10, "seed": 0}
OURS = [data for data in subclasses(RLData) if data.__module__.startswith(datamodules.__name__)]
ALL = sorted(OURS, key=lambda data: data.__name__)


@pytest.mark.parametrize("data", ALL, ids=lambda data: data.__name__)
def test_a_signature_names_every_argument(data):
    parameters = inspect.signature(data).parameters
    own = list(inspect.signature(data.__init__).parameters)[1:]
    assert list(parameters)[: len(own)] == own
    assert not any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters.values())
    added = {name: each for name, each in parameters.items() if name not in own}
    assert set(added) == {*RUN, "eval_every"} - set(own)
    assert all(each.kind is each.KEYWORD_ONLY for each in added.values())
    assert {name: each.default for name, each in added.items() if name != "eval_every"} == RUN
    assert added["eval_every"].default == data.default_eval_every


class Wide(OnPolicyData):
    """Takes any, and hands it on."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)


class Seeded(OnPolicyData):
    """Has a seed of its own."""

    def __init__(self, env, seed=3):
        super().__init__(env)
        self.layout = seed


def test_subclasses_say_theirs():
    names = list(inspect.signature(Wide).parameters)
    assert names[0] == "args" and names[-1] == "kwargs" and names[1:-1] == RUN_ORDER
    assert [*inspect.signature(Seeded).parameters][:2] == ["env", "seed"]
    assert Seeded("CartPole-v1", seed=5, env_steps=7).layout == 5
    wide = Wide("CartPole-v1", num_envs=2, seed=4, eval_every=None)
    assert (wide.num_envs, wide.seed, wide.clock.run.eval_every) == (2, 4, None)


def test_a_call_binds_as_it_says():
    bound = inspect.signature(OnPolicyData).bind("CartPole-v1", num_envs=2, env_steps=5, seed=9)
    data = OnPolicyData(*bound.args, **bound.kwargs)
    assert (data.clock.run.env_steps, data.seed, data.num_envs) == (5, 9, 2)
    with pytest.raises(TypeError, match="env_step"):
        OnPolicyData("CartPole-v1", env_step=5)


def test_printing_data_changes_nothing():
    """Lightning's own way walks through every loader."""
    data = OnlineData("Pendulum-v1", eval_every=20)
    data.connect(SAC(data.spec))
    data.next_block()
    before = data.clock.state_dict()
    assert str(data) == repr(data) == "<OnlineData of Pendulum-v1>"
    assert data.clock.state_dict() == before


def test_an_unknown_vectorization_is_refused_before_a_run_has_a_folder():
    with pytest.raises(ConfigError, match="vectorization 'thread' is none of sync, async, native"):
        OnlineData("Pendulum-v1", vectorization="thread")
