"""The configs that a sweep trains, and what is written of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rl_lightning.runs.request import Request
from rl_lightning.sweep.definition import read_definition
from rl_lightning.sweep.run_sweep import open_folder
from rl_lightning.sweep.sweep_config import check_config, config_of, first_point, read_file

pytest.importorskip("optuna")

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RL_LOGS", raising=False)
    return tmp_path


@pytest.mark.parametrize("path", sorted((ROOT / "configs/sweep").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_sweeps_are_sweeps(path: Path) -> None:
    assert len(path.read_text().splitlines()[0].split(" · ")) == 3, "# what · needs · how long here"
    definition = read_file(path, None)
    if definition.base and (ROOT / "configs" / f"{definition.base[0]}.yaml").is_file():
        config_of(definition, {**first_point(definition)}, 0)


def test_whole_configs_and_pipelines_vary(workdir: Path) -> None:
    definition = read_definition(
        {"grid": {"config": ["ppo/cartpole", "ppo/acrobot"]}, "overrides": {"model.lr": 1}}, "s"
    )
    for name, env in (("ppo/cartpole", "CartPole-v1"), ("ppo/acrobot", "Acrobot-v1")):
        config = config_of(definition, {"config": name}, 3)
        assert config["data"]["init_args"]["env"]["id"] == env
        assert config["seed_everything"] == 3 and config["model"]["init_args"]["lr"] == 1
    pipeline = read_definition(
        {
            "base_config": "ppo/robust-cartpole",
            "grid": {"stages.train.model.lr": [1.0], "run.env_steps": [64]},
        },
        "s",
    )
    config = config_of(pipeline, {"stages.train.model.lr": 0.5, "run.env_steps": 64}, 7)
    first, second = config["stages"]
    assert first["overrides"]["model.init_args.lr"] == 0.5 and "model.init_args.lr" not in second["overrides"]
    assert first["overrides"]["run.env_steps"] == second["overrides"]["run.env_steps"] == 64
    assert first["overrides"]["seed_everything"] == 7 and "name" not in config


SHOWN = re.findall(r"```yml\n(.*?)```", (ROOT / "docs/sweeps.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("text", SHOWN, ids=lambda text: text.splitlines()[0].lstrip("# "))
def test_sweeps_of_the_docs_would_train(text: str, workdir: Path) -> None:
    definition = read_definition(yaml.safe_load(text), "s")
    check_config(config_of(definition, first_point(definition), 0), Request())


def test_a_password_is_not_written_down(workdir: Path) -> None:
    path = workdir / "s.yaml"
    storage = "postgresql://me:geheim@host/db"
    path.write_text(
        yaml.safe_dump({"base_config": "ppo/cartpole", "grid": {"model.lr": [1]}, "storage": storage})
    )
    folder = open_folder(read_file(path, None), path)
    assert "geheim" not in (folder / "sweep.yaml").read_text()


def test_auto_tuner_finds_the_maximum(workdir: Path) -> None:
    from rl_lightning.sweep import AutoTuner

    base = {"model": {"class_path": "PPO", "init_args": {"lr": 0.1}}}
    space = {"model.lr": {"type": "uniform", "low": 0.0, "high": 1.0}}
    tuner = AutoTuner(base, space, sampler={"name": "tpe", "seed": 0}, folder="study")
    for _ in range(20):
        config = tuner.suggest_next_config()
        tuner.update_with_result(config, -((config["model"]["init_args"]["lr"] - 0.3) ** 2))
    assert tuner.best is not None and abs(tuner.best.params["model.lr"] - 0.3) < 0.1
    assert base["model"]["init_args"]["lr"] == 0.1
    failed = tuner.suggest_next_config()
    later = AutoTuner(base, space, folder="study")
    later.update_with_result(failed, None)
    assert len(later.rows) == 21 and later.rows[-1].state == "fail"
    with pytest.raises(Exception, match="not suggested"):
        later.update_with_result(failed, 1.0)
