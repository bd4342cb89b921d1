"""A module keeps what it was made with, refuses what cannot be, and comes back from a checkpoint alone."""

import copy
import os
import pickle
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from contracts.cases import BY_NAME, each
from contracts.harness import fit
from torch import nn

from rl_lightning.algorithms import DQN, PPO, SAC, RLModule
from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, write_file
from rl_lightning.clock.run_clock import RunConfig
from rl_lightning.datamodules import OnlineData
from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.factories import class_of
from rl_lightning.functional.advantage_estimators import GAE
from rl_lightning.io.checkpoint_files import read_file
from rl_lightning.models.described import describe, fingerprint_of, missing_in, rebuild, trusted_class
from rl_lightning.nn import MLP, Network, SmallCNN
from rl_lightning.types import EnvSpec

SPEC = EnvSpec("CartPole-v1", (4,), action_kind="discrete", action_sizes=(2,))


def saved(module: RLModule, path: Path) -> Path:
    state: dict[str, Any] = {"state_dict": module.state_dict()}
    module.on_save_checkpoint(state)
    write_file(state, path)
    return path


def weights_of(module: RLModule) -> dict[str, torch.Tensor]:
    return module.state_dict()


def assert_alike(one: RLModule, other: RLModule) -> None:
    assert type(one) is type(other)
    assert weights_of(one).keys() == weights_of(other).keys()
    for name, weight in weights_of(one).items():
        assert torch.equal(weight, weights_of(other)[name]), name


def played(module: RLModule, obs: torch.Tensor) -> torch.Tensor:
    module.eval()
    with torch.no_grad():
        return module.act(obs, module.initial_carry(len(obs)), None)[0]


@each()
def test_every_algorithm_comes_back_from_its_checkpoint(case, tmp_path):
    module = case.model(case.data().spec)
    path = saved(module, tmp_path / "a.ckpt")
    assert not list(missing_in(module.hyper_parameters)), "every recipe of ours can be written down"
    again = RLModule.load_from_checkpoint(path)
    assert_alike(again, module)
    assert again.hyper_parameters == module.hyper_parameters


@pytest.mark.parametrize("name", ["ppo-discrete", "sac", "dqn", "iql", "dreamer-v3"])
def test_what_a_trainer_saved_acts_alike(name, tmp_path):
    case = BY_NAME[name]
    budget = RunConfig(updates=3) if name == "iql" else RunConfig(env_steps=160)
    fitted = fit(case, budget)
    fitted.trainer.save_checkpoint(tmp_path / "mine.ckpt")
    module = type(fitted.model).load_from_checkpoint(tmp_path / "mine.ckpt")
    assert_alike(module, fitted.model)
    obs = torch.randn(5, *fitted.data.spec.obs_shape)
    assert torch.equal(played(module, obs), played(fitted.model, obs))


def test_the_files_of_a_run_are_loaded(tmp_path):
    fitted = fit(BY_NAME["ppo-discrete"], RunConfig(env_steps=256, eval_every=128), folder=tmp_path)
    newest = CheckpointStore(tmp_path / "checkpoints").checkpoints()[-1]
    assert_alike(PPO.load_from_checkpoint(newest), fitted.model)
    assert (
        PPO.load_from_checkpoint(str(tmp_path / "checkpoints" / "best.ckpt")).n_epochs
        == fitted.model.n_epochs
    )
    stored = read_file(newest / "model.ckpt")["hyper_parameters"]
    assert stored["lr"] == 5e-3 and stored["gamma"] == 0.99, "defaults, too"
    assert stored["network"] == {
        "class_path": "rl_lightning.nn.mlp.MLP",
        "init_args": {"hidden_dims": [32], "activation": "tanh", "layer_norm": False, "init": "orthogonal"},
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gamma": 1.5}, "gamma is 1.5; it lies between 0 and 1"),
        ({"lr": -1.0}, "lr is -1.0; it must not be negative"),
        ({"minibatch_size": 0}, "minibatch_size is 0; it must be at least 1"),
    ],
)
def test_wrong_arguments_are_refused_in_the_words_of_python(options, said):
    with pytest.raises(ConfigError) as caught:
        PPO(SPEC, **options)
    assert str(caught.value) == said


def test_a_wrong_call_is_told_by_the_constructor():
    with pytest.raises(TypeError, match="gama"):
        PPO(SPEC, gama=0.9)
    with pytest.raises(TypeError, match="spec"):
        PPO()


def test_copies_keep_their_arguments():
    module = PPO(SPEC, partial(MLP, hidden_dims=[8]), lr=1e-2)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert again.hyper_parameters == module.hyper_parameters
        assert again.hyper_parameters["lr"] == 1e-2


class Open(PPO):
    """Takes whatever PPO takes."""

    def __init__(self, *args: Any, extra: int = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extra = extra


class OpenByName(DQN):
    """Takes keywords alone."""

    def __init__(self, spec: EnvSpec, **kwargs: Any) -> None:
        super().__init__(spec, **kwargs)


def test_open_constructors_are_written_down(tmp_path):
    module = Open(SPEC, partial(MLP, hidden_dims=[8]), extra=3, lr=0.5)
    again = Open.load_from_checkpoint(saved(module, tmp_path / "a.ckpt"))
    assert (again.extra, again.lr) == (3, 0.5)
    assert_alike(again, module)
    other = OpenByName(SPEC, gamma=0.5)
    assert OpenByName.load_from_checkpoint(saved(other, tmp_path / "b.ckpt")).gamma == 0.5
    with pytest.raises(ConfigError, match=r"gamma is 2"):
        OpenByName(SPEC, gamma=2)


def own(width: int, activation: Any) -> Network:
    """A network with a function in it."""
    return lambda obs_shape: MLP(obs_shape, [width if activation else 0])


def test_what_was_given_in_python_is_asked_for_again(tmp_path):
    module = PPO(SPEC, own(8, lambda x: x))
    path = saved(module, tmp_path / "a.ckpt")
    with pytest.raises(ConfigError, match=r"give it again: network=\.\.\. \(it was .*lambda"):
        PPO.load_from_checkpoint(path)
    assert_alike(PPO.load_from_checkpoint(path, network=own(8, abs)), module)
    with pytest.raises(ResumeError, match="its weights do not fit this PPO"):
        PPO.load_from_checkpoint(path, network=own(9, abs))


def test_overrides_replace_what_was_saved(tmp_path):
    path = saved(PPO(SPEC, lr=1e-3), tmp_path / "a.ckpt")
    assert PPO.load_from_checkpoint(path, lr=0.2).lr == 0.2
    with pytest.raises(ConfigError, match="gamma is 7"):
        PPO.load_from_checkpoint(path, gamma=7)
    with pytest.raises(ConfigError, match="cannot be made"):
        SAC.load_from_checkpoint(path)


def test_descriptions_are_plain_and_undone():
    assert describe(np.float64(0.5)) == 0.5 and describe(Path("x/y")) == "x/y"
    assert describe({"a": (1, [2.0, None])}) == {"a": (1, [2.0, None])}
    whole = describe([GAE(0.9), partial(SmallCNN, channels=[4], hidden_dim=8)])
    gae, network = rebuild(whole[0], "here"), rebuild(whole[1], "here", Network | None)
    assert isinstance(gae, GAE) and class_of(network) is SmallCNN and network((1, 8, 8)).out_dim == 8
    assert describe([gae, network]) == whole
    for value in (lambda x: x, np.ones(3), nn.Linear(2, 2), torch.zeros(1), abs, object()):
        assert list(missing_in(describe(value))), value


def test_hashes_tell_objects_apart():
    assert fingerprint_of(np.ones(3)) == fingerprint_of(np.ones(3)) != fingerprint_of(np.zeros(3))
    assert fingerprint_of(PPO) not in (None, fingerprint_of(DQN))
    layer = nn.Linear(2, 2)
    assert fingerprint_of(layer) == fingerprint_of(copy.deepcopy(layer)) != fingerprint_of(nn.Linear(2, 2))


HOSTILE = [
    "os.system",
    "subprocess.Popen",
    "builtins.eval",
    "posix.system",
    "rl_lightning.artifacts.importlib",
    "rl_lightning.artifacts.Path",
    "rl_lightning.cli.main.main",
    "torch.nn.os.system",
    "torch.distributed.elastic.multiprocessing.SubprocessHandler",
    "torch.hub.load",
    "numpy.load",
    "..",
    "",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_class_path_is_never_called(path, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(os, "system", lambda *args, **kwargs: called.append(args))
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: called.append(args))
    state: dict[str, Any] = {"state_dict": {}}
    module = PPO(SPEC)
    module.on_save_checkpoint(state)
    state["hyper_parameters"]["network"] = {"class_path": path, "init_args": {"args": "touch x"}}
    torch.save(state, tmp_path / "a.ckpt")
    with pytest.raises(ConfigError):
        PPO.load_from_checkpoint(tmp_path / "a.ckpt")
    torch.save({**state, "class_path": path, "hyper_parameters": {}}, tmp_path / "b.ckpt")
    with pytest.raises(ConfigError):
        RLModule.load_from_checkpoint(tmp_path / "b.ckpt")
    assert not called


def test_a_class_of_ours_stands_only_where_its_kind_may(tmp_path):
    state: dict[str, Any] = {"state_dict": {}}
    PPO(SPEC).on_save_checkpoint(state)
    store = {
        "class_path": "rl_lightning.replay.segments.SegmentStore",
        "init_args": {"folder": str(tmp_path / "made")},
    }
    for name, said in (("network", "Module"), ("lr", "float"), ("lr_schedule", "Schedule")):
        torch.save(
            {**state, "hyper_parameters": {**state["hyper_parameters"], name: store}}, tmp_path / "a.ckpt"
        )
        with pytest.raises(ConfigError, match=f"where only {said} may stand"):
            PPO.load_from_checkpoint(tmp_path / "a.ckpt")
    assert not (tmp_path / "made").exists()


def test_a_file_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "hostile_package.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="if you trust it, import hostile_package first"):
        trusted_class("hostile_package.Network", "a.ckpt")


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, (os.environ["BOMB"],)


def test_a_pickle_that_would_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "went_off"))
    torch.save({"state_dict": {}, "hyper_parameters": {"network": Bomb()}}, tmp_path / "a.ckpt")
    with pytest.raises(ResumeError, match="not a checkpoint that can be loaded safely"):
        PPO.load_from_checkpoint(tmp_path / "a.ckpt")
    assert not (tmp_path / "went_off").exists()


def test_other_files_are_refused_in_a_line(tmp_path):
    with pytest.raises(ResumeError, match="no such checkpoint"):
        PPO.load_from_checkpoint(tmp_path / "none.ckpt")
    torch.save({"state_dict": {}}, tmp_path / "bare.ckpt")
    with pytest.raises(ResumeError, match="no hyper_parameters"):
        PPO.load_from_checkpoint(tmp_path / "bare.ckpt")
    torch.save([1], tmp_path / "list.ckpt")
    with pytest.raises(ResumeError, match="holds no weights"):
        PPO.load_from_checkpoint(tmp_path / "list.ckpt")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "Adam"}, "optimizer is 'Adam'; it must be what makes one"),
        (
            {"optimizer": torch.optim.SGD([torch.zeros(1)], 0.1)},
            "optimizer is a made SGD; it must be what makes one",
        ),
        ({"critic_hidden_dims": [8, 0]}, "critic_hidden_dims is .*; it must be at least 1"),
    ],
)
def test_parts_that_cannot_be_are_refused_before_they_are_used(settings, words):
    with pytest.raises(ConfigError, match=words):
        SAC(EnvSpec("x", (3,), action_shape=(2,)), **settings)


def test_data_in_place_of_their_spec_are_refused_in_a_line():
    with pytest.raises(ConfigError, match="spec is a OnlineData; give what it has"):
        SAC(OnlineData("Pendulum-v1"))
