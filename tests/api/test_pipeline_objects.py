"""Objects for the stages of a pipeline: shared or for one, recorded, asked for again, and part of what a stage is."""

import json

import gymnasium
import numpy as np
import pytest
import yaml
from torch import nn

import rl_lightning as rl
from rl_lightning.algorithms import BC
from rl_lightning.errors import ConfigError

ROWS = 40


class Slope(gymnasium.Env):
    """Three numbers are seen, two are given; small ones pay."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        return obs, -float(np.square(action).sum()), self.steps >= 5, False, {}


class Cloned(BC):
    """A subclass in this very file."""


def arrays(reward: float = 1.0):
    draw = np.random.default_rng(0)
    return {
        "observations": draw.standard_normal((ROWS, 3)),
        "actions": draw.uniform(-1, 1, (ROWS, 2)),
        "rewards": np.full(ROWS, reward),
        "terminals": np.arange(ROWS) % 10 == 9,
    }


def features(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh())


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    data = {"class_path": "OfflineData", "init_args": {"batch_size": 8}}
    common = {
        "threads": 1,
        "log": {"tensorboard": False},
        "run": {"updates": 8, "eval_every": 4, "eval_episodes": 2},
    }
    clone = {"model": {"class_path": "BC", "init_args": {"hidden_dims": [8]}}, "data": data, **common}
    value = {
        "model": {"class_path": "FQE", "init_args": {"hidden_dims": [8], "plateau": None}},
        "data": data,
        **common,
    }
    stages = [
        {"name": "clone", "config": clone},
        {"name": "value", "config": value, "inputs": {"model.init_args.policy_from": "clone"}},
    ]
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump({"run": {"name": "both"}, "stages": stages}))
    return path


GIVEN = {"data.dataset": arrays(), "stages.clone.data.env": Slope}


def test_stages_get_what_they_take(config):
    run = rl.fit(config, GIVEN)
    assert run.status == "finished" and run.stages == ["clone", "value"]
    assert run.record["given"] == ["data.dataset", "stages.clone.data.env"]
    clone, value = run["clone"], run["value"]
    assert clone.record["given"] == ["data.dataset", "data.env"] and clone.record["env"] == "Slope"
    assert value.record["given"] == ["data.dataset"] and value.record["update"] == 8
    mark = yaml.safe_load((value.folder / "config.yaml").read_text())["data"]["init_args"]["dataset"]
    assert mark["given_in_python"] and len(mark["sha256"]) == 64
    assert clone.policy().act(np.zeros(3, np.float32)).shape == (2,)
    assert rl.load(clone.folder, given={"data.dataset": arrays(), "data.env": Slope}).spec.env_id == "Slope"
    with pytest.raises(ConfigError, match=r'given=\{"data.env": \.\.\.'):
        rl.load(clone.folder, given={"data.dataset": arrays()})


def test_a_pipeline_goes_on_with_its_objects(config):
    run = rl.fit(config, GIVEN)
    with pytest.raises(ConfigError) as caught:
        rl.resume(run.name)
    again = 'given={"data.dataset": ..., "stages.clone.data.env": ...}'
    assert again in str(caught.value) and "\n" not in str(caught.value)
    assert rl.resume(run.name, given=GIVEN).status == "finished", "nothing is left to do"
    assert rl.resume(run).status == "finished", "`fit` returned what it was given"
    with pytest.raises(ConfigError, match="stage clone was finished with another config"):
        rl.resume(run.name, given={**GIVEN, "data.dataset": arrays(2.0)})


def test_an_interrupted_stage_is_resumed_with_them(config):
    run = rl.fit(config, GIVEN)
    ledger = json.loads((run.folder / "pipeline.json").read_text())
    del ledger["jobs"]["value"]
    (run.folder / "pipeline.json").write_text(json.dumps(ledger))
    assert rl.resume(run)["value"].record["update"] == 8


def test_a_class_and_a_network_for_one_stage(config):
    given = {
        "stages.clone.model": Cloned,
        "stages.clone.model.network": features,
        "stages.clone.model.hidden_dims": "null",
    }
    with pytest.raises(
        Exception, match="a policy is needed here"
    ):  # no artifact holds a network of one's own
        rl.fit(config, {**GIVEN, **given})
    run = rl.TrainedRun(config.parent / "logs" / "both", {**GIVEN, **given})
    assert run["clone"].record["algorithm"] == "Cloned" and run["clone"].status == "finished"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model.nothing": features}, "model.nothing: none of the stages clone, value takes it"),
        ({"stages.none.data.env": Slope}, "the stages are clone, value"),
        ({"stages.clone": Slope}, "write stages.NAME.KEY"),
        ({"stages.clone.model.network.hidden_dims": features}, "an object is handed over as an argument of"),
        ({"run.tags": features}, "an object is handed over as an argument of"),
        ({"stages.value.model": Slope}, "model: give a subclass of RLModule itself"),
    ],
)
def test_what_no_stage_takes_is_refused_in_a_line(config, given, said, tmp_path):
    with pytest.raises(ConfigError) as caught:
        rl.fit(config, {"data.dataset": arrays(), **given})
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "logs" / "both").exists()
