"""A subclass in its parent's place keeps the config's settings; an unrelated class says what it drops."""

import re
import sys
from pathlib import Path

import pytest

from rl_lightning.runs.config.compose import compose
from rl_lightning.runs.config.parsing import parse_config
from rl_lightning.runs.process import unchanged_process
from rl_lightning.runs.request import Request

SOURCE = '''
from rl_lightning.algorithms import DQN, PPO, Dreamer
from rl_lightning.datamodules import OnPolicyData
from rl_lightning.types import EnvSpec


class MyDreamer(Dreamer):
    """As its parent."""


class SwappedPPO(PPO):
    """Hands on whatever it is given.

    Args:
        bonus: Its own.
    """

    def __init__(self, spec: EnvSpec, bonus: float = 0.0, **kwargs):
        super().__init__(spec, **kwargs)
        self.bonus = bonus


class NarrowPPO(PPO):
    """Takes less than its parent."""

    def __init__(self, spec: EnvSpec, lr: float = 1.0):
        super().__init__(spec, lr=lr)


class MyData(OnPolicyData):
    """As its parent."""
'''


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package of the user's, imported once: a short name must mean one class."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "mine_swapped.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    yield "mine_swapped"
    sys.path.remove(str(folder))


@pytest.fixture
def mine(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return package


def built(names, mine, *flags):
    with unchanged_process():
        cli = parse_config(compose(names), Request(overrides=list(flags), imports=[mine]))
        cli.build(meta=True)
        cli.datamodule.teardown("fit")
    return cli


def count(cli):
    return sum(weight.numel() for weight in cli.model.parameters())


def test_a_subclass_has_as_many_weights_as_its_parent_with_the_config(mine, capsys):
    parent = built(["dreamer_v3/frozenlake"], mine)
    child = built(["dreamer_v3/frozenlake"], mine, f"--model={mine}.MyDreamer")
    assert type(child.model).__name__ == "MyDreamer" and count(child) == count(parent)
    assert child.model.hyper_parameters == parent.model.hyper_parameters
    assert "dropped" not in capsys.readouterr().err


def test_by_overlay_by_extends_and_by_short_name(mine):
    parent = built(["ppo/cartpole"], mine).model.hyper_parameters
    Path("over.yaml").write_text(
        f"model: {{class_path: {mine}.SwappedPPO, init_args: {{bonus: 2.0, lr: 0.5}}}}\n"
    )
    Path("child.yaml").write_text(f"extends: ppo/cartpole\nmodel: {mine}.SwappedPPO\n")
    over = built(["ppo/cartpole", "over.yaml"], mine).model
    assert over.bonus == 2.0 and over.lr == 0.5
    assert over.n_epochs == parent["n_epochs"] and over.hyper_parameters["network"] == parent["network"]
    for names, flags in ((["child.yaml"], ()), (["ppo/cartpole"], ("--model=SwappedPPO", "--model.lr=0.25"))):
        model = built(names, mine, *flags).model
        assert type(model).__name__ == "SwappedPPO" and model.n_epochs == parent["n_epochs"]
        assert model.lr == (0.25 if flags else parent["lr"])


def test_a_data_class_keeps_its_parents_settings(mine):
    parent = built(["ppo/cartpole"], mine).datamodule
    child = built(["ppo/cartpole"], mine, f"--data={mine}.MyData").datamodule
    assert (child.num_envs, child.rollout_steps, child.env) == (
        parent.num_envs,
        parent.rollout_steps,
        parent.env,
    )


def dropped(capsys):
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dropped")]
    return [set(re.split(r", ", line.partition(": ")[2])) for line in lines], lines


def test_what_is_dropped_is_listed_in_one_line(mine, capsys):
    given = set(compose(["ppo/cartpole"])["model"]["init_args"])
    built(["ppo/cartpole"], mine, f"--model={mine}.NarrowPPO")
    found, lines = dropped(capsys)
    assert found == [given - {"lr"}] and lines[0].startswith("dropped with the former class PPO: ")
    Path("dqn.yaml").write_text("model: {class_path: DQN, init_args: {lr: 0.5}}\ndata: OnlineData\n")
    built(["ppo/cartpole", "dqn.yaml"], mine)
    found, lines = dropped(capsys)
    assert found[0] == given - {"lr"} and len(lines) == 2, "one for the model, one for the data"
    assert "env" not in found[1] and "OnPolicyData" in lines[1]


def test_a_class_swapped_twice_keeps_what_both_take(mine, capsys):
    Path("one.yaml").write_text(f"model: {{class_path: {mine}.SwappedPPO, init_args: {{gamma: 0.5}}}}\n")
    model = built(["ppo/cartpole", "one.yaml"], mine, f"--model={mine}.NarrowPPO", "--model.lr=0.25").model
    assert model.lr == 0.25
    assert "gamma" in dropped(capsys)[0][0]


def test_nonsense_under_former_is_ignored(mine):
    for former in ("3", "{init_args: 4}", "{class_path: os.system, init_args: {args: x}}"):
        Path("odd.yaml").write_text(
            f"extends: ppo/cartpole\nmodel: {{class_path: PPO, init_args: {{lr: 0.5}}, former: {former}}}\n"
        )
        assert built(["odd.yaml"], mine).model.lr == 0.5
