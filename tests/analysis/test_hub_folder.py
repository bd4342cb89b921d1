"""A shared agent's folder stands alone: it plays where neither its run, its data nor its artifacts are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from resume.support import Rl
from safetensors.torch import load_file, save_file

import rl_lightning as rl_python

SHORT = ("--updates", "20", "--eval_every", "20", "--eval_episodes", "1")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def exported(rl: Rl, run: str, *more: str) -> Path:
    result = rl("export", run, "--format", "hub", "--output", "agent", "--episodes", "2", *more)
    assert result.code == 0, result.err
    return Path("agent")


def alone(here: Path) -> Path:
    """The folder in an otherwise empty place."""
    shutil.move(here / "agent", here / "apart" / "agent")
    for name in ("lightning_logs", "data", "checkpoints"):
        shutil.rmtree(here / name, ignore_errors=True)
    return here / "apart" / "agent"


def test_a_policy_of_recorded_data_and_its_artifacts(rl: Rl, here: Path) -> None:
    (here / "apart").mkdir()
    assert rl("fit", "--config", "dice/demo", *SHORT, "--name", "made").code == 0
    folder = exported(rl, "made/dice")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["model"]["init_args"]["behavior"] == "artifacts/behavior-0"
    assert (
        config["data"]["class_path"].endswith("OnlineData") and "dataset" not in config["data"]["init_args"]
    )
    place = alone(here)
    played = rl("play", str(place), "--episodes", "2", "--no_video")
    assert played.code == 0 and "a shared agent: DiceGuidance" in played.out, played.err


def test_the_card_the_weights_and_the_same_actions(rl: Rl, here: Path) -> None:
    budget = ("--env_steps", "1024", "--eval_every", "1024", "--eval_episodes", "1", "--name", "mine")
    assert rl("fit", "--config", "ppo/cartpole", *budget).code == 0
    folder = exported(rl, "mine")
    obs = np.random.default_rng(0).normal(size=(32, 4)).astype(np.float32)
    assert (rl_python.load("mine").act(obs) == rl_python.load(str(folder)).act(obs)).all()
    head = yaml.safe_load((folder / "README.md").read_text().split("---")[1])
    metric = head["model-index"][0]["results"][0]["metrics"][0]
    result = json.loads((folder / "run.json").read_text())["result"]
    assert (
        metric["type"] == "mean_reward" and metric["value"] == f"{result['mean']:.2f} +/- {result['std']:.2f}"
    )
    assert "CartPole-v1" in head["tags"] and (folder / "replay.mp4").stat().st_size > 0
    assert "rl fit --config ppo/cartpole" in (folder / "README.md").read_text()
    assert "is there already" in rl("export", "mine", "--format", "hub", "--output", "agent").err


def test_a_hostile_folder_runs_nothing(rl: Rl, here: Path) -> None:
    budget = ("--env_steps", "512", "--eval_every", "512", "--eval_episodes", "1", "--name", "mine")
    assert rl("fit", "--config", "ppo/cartpole", *budget).code == 0
    folder = exported(rl, "mine")
    record = json.loads((folder / "run.json").read_text())
    config = (folder / "config.yaml").read_text()

    (folder / "run.json").write_text(
        json.dumps({**record, "packed": {"model.init_args.network": "../../etc"}})
    )
    assert rl("play", str(folder), "--no_video").code == 4
    (folder / "run.json").write_text(json.dumps({**record, "imports": ["os"]}))
    assert "--import os" in rl("play", str(folder), "--no_video").err
    (folder / "run.json").write_text(json.dumps(record))

    (folder / "config.yaml").write_text(config.replace("rl_lightning.algorithms.online.ppo.PPO", "os.system"))
    assert rl("play", str(folder), "--no_video").code == 2
    (folder / "config.yaml").write_text(config)

    weights = load_file(folder / "model.safetensors")
    save_file(
        {**weights, "policy.linear.weight": weights["policy.linear.weight"][:1].clone()},
        folder / "model.safetensors",
    )
    damaged = rl("play", str(folder), "--no_video")
    assert damaged.code == 4 and len(damaged.err.strip().splitlines()) <= 3
    (folder / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{}garbage")
    assert rl("play", str(folder), "--no_video").code == 4
