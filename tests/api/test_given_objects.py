"""Objects in place of settings: handed over, marked in what is written down, and asked for again."""

import json
import shutil

import gymnasium
import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Callback
from torch import nn

import rl_lightning as rl
from rl_lightning.algorithms import PPO
from rl_lightning.api.objects import sort_out
from rl_lightning.errors import ConfigError

SMALL = {
    "data.num_envs": 2,
    "data.rollout_steps": 32,
    "model.minibatch_size": 32,
    "run.eval_every": 128,
    "run.eval_episodes": 2,
    "log.tensorboard": False,
}
STEPS = 256


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    return tmp_path / "logs"


class Corridor(gymnasium.Env):
    """Walks right to be paid."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = int(self.np_random.integers(3)), 0
        return self._obs(), {}

    def step(self, action):
        self.at, self.steps = self.at + (1 if action else -1), self.steps + 1
        return self._obs(), float(action), self.steps >= 8, False, {}

    def _obs(self):
        return np.array([self.at / 10, self.steps / 10, 1.0], np.float32)


def features(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh())


GIVEN = {"model.network": features, "data.env": Corridor}


def test_objects_are_trained_marked_and_asked_for_again(logs):
    run = rl.fit("ppo/cartpole", {**SMALL, **GIVEN}, env_steps=STEPS)
    assert run.status == "finished" and run.record["env"] == "Corridor"
    assert run.record["given"] == ["data.env", "model.network"] and run.record["command"] == ["rl", "fit"]
    config = yaml.safe_load((run.folder / "config.yaml").read_text())
    network, env = config["model"]["init_args"]["network"], config["data"]["init_args"]["env"]
    assert network["given_in_python"].endswith("test_given_objects.features") and len(network["sha256"]) == 64
    assert env["given_in_python"].endswith("Corridor") and env["id"] == "Corridor"
    obs = np.zeros((4, 3), np.float32)
    policy = run.policy()
    assert np.array_equal(policy.act(obs), rl.load(run.folder, given=GIVEN).act(obs))
    for again in (lambda: rl.load(run.folder), lambda: rl.resume(run.name, env_steps=2 * STEPS)):
        with pytest.raises(ConfigError) as caught:
            again()
        said = str(caught.value)
        assert (
            'give it again there: given={"model.network": ..., "data.env": ...}' in said and "\n" not in said
        )
    with pytest.raises(ConfigError, match=r'given=\{"data.env": \.\.\.\}'):
        rl.load(run.folder, given={"model.network": features})


def test_a_run_of_objects_resumed_is_a_run_never_stopped(logs):
    steady = {**SMALL, **GIVEN, "model.lr_schedule": "Constant", "model.clip_range_schedule": "Constant"}
    whole = rl.fit("ppo/cartpole", steady, env_steps=2 * STEPS, name="whole")
    half = rl.fit("ppo/cartpole", steady, env_steps=STEPS, name="half")
    done = rl.resume("half", env_steps=2 * STEPS, given=GIVEN)
    assert done.record["env_step"] == 2 * STEPS and done.best == whole.best
    again, never = (rl.load(run, checkpoint="last").model.state_dict() for run in (done, whole))
    assert all(torch.equal(again[name], never[name]) for name in never)
    assert rl.resume(half, env_steps=3 * STEPS).record["env_step"] == 3 * STEPS, (
        "`fit` returned what it was given"
    )


class Counts(Callback):
    """Counts blocks."""

    def __init__(self):
        self.blocks = 0

    def on_train_batch_end(self, *args):
        self.blocks += 1


class Louder(PPO):
    """A subclass in this very file."""


def test_callbacks_classes_and_arrays(logs):
    counts = Counts()
    run = rl.fit("ppo/cartpole", {**SMALL, "trainer.callbacks": [counts], "model": Louder}, env_steps=STEPS)
    assert counts.blocks == STEPS // 64 and run.record["algorithm"] == "Louder"
    assert type(rl.load(run).model) is Louder
    rows = 40
    arrays = {
        "observations": np.random.default_rng(0).standard_normal((rows, 3)),
        "actions": np.zeros((rows, 2)),
        "rewards": np.ones(rows),
        "terminals": np.arange(rows) % 10 == 9,
    }
    config = logs.parent / "bc.yaml"
    config.write_text("model: BC\ndata: {class_path: OfflineData, init_args: {batch_size: 8}}\n")
    trained = rl.fit(config, {"data.dataset": arrays, "log.tensorboard": False}, updates=4)
    assert trained.record["update"] == 4 and trained.record["data"]["name"] == "arrays in memory"
    mark = yaml.safe_load((trained.folder / "config.yaml").read_text())["data"]["init_args"]["dataset"]
    assert mark["given_in_python"] and len(mark["sha256"]) == 64
    assert trained.policy().act(np.zeros(3)).shape == (2,)


def test_what_cannot_be_handed_over_is_refused_in_a_line(logs):
    class Local(PPO):
        """Nobody finds it."""

    for overrides, said in (
        ({"model.network.hidden_dims": features}, "an object is handed over as an argument of"),
        ({"run.tags": features}, "an object is handed over as an argument of"),
        ({"model": features}, "give a subclass of RLModule itself"),
        ({"data": PPO}, "give a subclass of RLData itself"),
        ({"model": Local}, "define it at the top of a module"),
        ({"model.network": 3.5j}, "network is 3.5j"),
        ({"data.env": Corridor()}, "several are needed"),
    ):
        with pytest.raises(ConfigError) as caught:
            rl.fit("ppo/cartpole", {**SMALL, **overrides}, env_steps=STEPS)
        assert said in str(caught.value) and "\n" not in str(caught.value), overrides
    with pytest.raises(ConfigError, match=r"model.nothing: PPO has no such argument"):
        rl.fit("ppo/cartpole", {**SMALL, "model.nothing": features}, env_steps=STEPS)
    assert not logs.exists() or not any(path.is_dir() for path in logs.iterdir())


def test_several_seeds_are_the_group_that_the_command_makes(logs):
    runs = rl.fit("ppo/cartpole", SMALL, env_steps=128, seeds=[3, 5], name="both")
    assert [run.name for run in runs] == ["both-s3", "both-s5"] and len(runs) == 2
    assert [run.record["seed"] for run in runs] == [3, 5] and len(runs.best) == 2
    for run in runs:
        record = json.loads((run.folder / "run.json").read_text())
        assert record["group"] == "both" and record["group_seeds"] == [3, 5]
        assert record["command"][:4] == ["rl", "fit", "--config", "ppo/cartpole"]
    assert repr(runs) == "<group both: 2 of 2 seeds finished>"
    assert "group both: 2 of 2 seeds finished" in runs.summary()
    alone = rl.fit("ppo/cartpole", SMALL, env_steps=128, seed=5)
    assert alone.best == runs[1].best
    assert "both" in str(rl.compare("both", alone))
    with pytest.raises(ConfigError, match=r'rl_lightning.resume\("both"\)'):
        rl.fit("ppo/cartpole", SMALL, env_steps=128, seeds=[5, 7], name="both")
    for wrong in ({"seeds": []}, {"seeds": [1], "seed": 2}):
        with pytest.raises(ConfigError, match="give seed= or seeds="):
            rl.fit("ppo/cartpole", SMALL, env_steps=128, **wrong)


def test_a_group_is_resumed_as_a_whole(logs):
    steady = {**SMALL, **GIVEN, "model.lr_schedule": "Constant", "model.clip_range_schedule": "Constant"}
    runs = rl.fit("ppo/cartpole", steady, env_steps=STEPS, seeds=[3, 5], name="both")
    longer = rl.resume(runs, env_steps=2 * STEPS)
    assert isinstance(longer, rl.TrainedRuns) and [run.name for run in longer] == ["both-s3", "both-s5"]
    assert [run.record["env_step"] for run in longer] == [2 * STEPS] * 2
    assert repr(longer) == "<group both: 2 of 2 seeds finished>"
    whole = rl.fit("ppo/cartpole", steady, env_steps=2 * STEPS, seed=5)
    again, never = (rl.load(run, checkpoint="last").model.state_dict() for run in (longer[1], whole))
    assert all(torch.equal(again[name], never[name]) for name in never), "as if it had never stopped"
    with pytest.raises(ConfigError, match=r'give it again there: given=\{"model.network"'):
        rl.resume("both", env_steps=3 * STEPS)
    by_name = rl.resume("both", env_steps=3 * STEPS, given=GIVEN)
    assert [run.record["env_step"] for run in by_name] == [3 * STEPS] * 2
    assert by_name[0].policy().act(np.zeros(3, np.float32)) in (0, 1)


def test_a_group_goes_on_with_what_is_left(logs):
    runs = rl.fit("ppo/cartpole", SMALL, env_steps=128, seeds=[3, 5], name="both")
    records = [run.record for run in runs]
    assert [run.record for run in rl.resume("both")] == records, "what is finished is left alone"
    before = runs[1].best
    shutil.rmtree(runs[1].folder)  # as if it had never begun
    again = rl.resume(runs)
    assert again[1].best == before and again[1].record["seed"] == 5
    assert again[1].record["group"] == "both" and again[1].record["group_seeds"] == [3, 5]
    assert "both" in str(rl.compare("both", again[0]))


def test_a_setting_given_by_its_dotted_name_counts(logs):
    assert rl.fit("ppo/cartpole", {**SMALL, "run.env_steps": 128, "run.name": "mine"}).name == "mine"
    assert rl.TrainedRun(logs / "mine").record["env_step"] == 128


def test_a_budget_of_1e6_is_a_whole_number():
    flags = sort_out({"run.eval_every": 2.5e4, "model.lr": 1.0}, {"run.env_steps": 1e6}).flags
    assert flags == ["--run.eval_every=25000", "--model.lr=1.0", "--run.env_steps=1000000"]
