"""Every algorithm, from its checkpoint alone: played, predicted, exported and loaded by the commands themselves."""

import json

import numpy as np
import pytest
import yaml
from contracts.as_config import config_of
from contracts.case import Case, made_of
from contracts.cases import each

from rl_lightning import load
from rl_lightning.cli import main
from rl_lightning.datamodules import OfflineData
from rl_lightning.errors import ConfigError
from rl_lightning.io.trust import ALLOWED_IMPORTS

onnxruntime = pytest.importorskip("onnxruntime")

IMPORT = ("--import", "contracts.as_config")


@pytest.fixture
def rl(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("RL_LOGS", "LOCAL_RANK", "RL_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    allowed = set(ALLOWED_IMPORTS)

    def call(*words):
        capsys.readouterr()
        code = main([*words, *IMPORT])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield call
    ALLOWED_IMPORTS.intersection_update(allowed)


@each()
def test_from_the_checkpoint_alone(case, rl, tmp_path):
    budget = {"env_steps": 100} if case.clock == "env_step" else {"updates": 2}
    run = {"eval_every": 1000, "eval_episodes": 1, **budget}
    config = {**config_of(case), "run": run, "log": {"tensorboard": False}, "threads": 1}
    (tmp_path / "row.yaml").write_text(yaml.safe_dump(config))
    code, _, err = rl("fit", "--config", "row.yaml", "--name", "row")
    assert code == 0, err
    plays = made_of(case.model)[0].evaluated_on == "episodes"
    (check_actor if plays else check_model)(case, rl, tmp_path)


def check_actor(case: Case, rl, folder):
    code, out, err = rl("play", "row", "--episodes", "2", "--no_video")
    assert code == 0 and "2 episodes" in out, err
    code, _, err = rl("predict", "row", "--episodes", "1", "--output", "played.npz")
    assert code == 0, err
    with np.load("played.npz") as played:
        obs, action = played["obs"], played["action"]
        assert len(obs) == len(action) == len(played["reward"])
    check_rows(rl, obs, action)
    check_loaded(obs, action)
    check_exported(case, rl, obs, folder)


def check_rows(rl, obs, action):
    """The same observations from a file: as many actions, of the same kind."""
    np.savez("rows.npz", obs=obs, action_mask=np.ones((len(obs), 4), bool))  # read where the env has masks
    code, _, err = rl("predict", "row", "--data", "rows.npz", "--output", "told.npz")
    assert code == 0, err
    with np.load("told.npz") as told:
        assert told["action"].shape == action.shape and told["action"].dtype == action.dtype


def check_loaded(obs, action):
    policy = load("row", imports=IMPORT[1:])
    legal = np.ones(4, bool) if policy.spec.action_mask else None
    assert np.shape(policy.act(obs[0], legal)) == np.shape(action[0])
    policy.reset()
    assert np.shape(policy.act(obs[:2], legal)) == np.shape(action[:2])


def check_exported(case: Case, rl, obs, folder):
    code, out, err = rl("export", "row", "--format", "safetensors")
    assert code == 0 and "bit for bit" in out, err
    code, out, err = rl("export", "row", "--format", "onnx", "--output", "onnx")
    if not case.onnx:
        assert code == 2 and "cannot express" in err and not (folder / "onnx").exists()
        assert "--format safetensors writes its weights" in err
        return
    assert code == 0 and "checked: " in out, err
    session = onnxruntime.InferenceSession("onnx/policy.onnx")
    noise = [item.shape[1] for item in session.get_inputs() if item.name == "noise"]
    about = json.loads((folder / "onnx/policy.json").read_text())
    assert noise == ([about["noise_inputs"]] if about["noise_inputs"] else [])


def check_model(case: Case, rl, folder):
    """What does not act is refused by name, in one line, and says what it does instead."""
    code, _, err = rl("test", "row")
    assert code == 0, err
    code, _, err = rl("play", "row", "--no_video")
    assert code == 2 and "does not act; for its scores: rl test row" in err
    code, _, err = rl("predict", "row", "--episodes", "1")
    assert code == 2 and "does not act; give rows" in err
    code, _, err = rl("export", "row", "--format", "onnx")
    assert code == 2 and "there is no policy to export" in err
    with pytest.raises(ConfigError, match="does not act"):
        load("row", imports=IMPORT[1:])
    data, given = made_of(case.data)
    if issubclass(data, OfflineData):
        code, _, err = rl("predict", "row", "--data", given["dataset"], "--output", "told.npz")
        assert code == 0, err
        with np.load("told.npz") as told:
            assert told.files and all(np.isfinite(told[name]).all() for name in told.files)
