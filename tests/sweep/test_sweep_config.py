"""The configs that a sweep trains, and what is written of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from rl_lightning.cli.train.sweep import take_varied
from rl_lightning.errors import ConfigError
from rl_lightning.runs.request import Request
from rl_lightning.sweep.definition import read_definition
from rl_lightning.sweep.run_sweep import open_folder
from rl_lightning.sweep.sweep_config import (
    SweepOptions,
    check_config,
    config_of,
    first_point,
    read_options,
    text_of,
)

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
    definition = read_options(SweepOptions(str(path)))
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
    folder = open_folder(read_options(SweepOptions(str(path))), path.read_text())
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


def test_a_sweep_that_is_typed_is_that_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [
        "--grid.model.lr",
        "1e-4,3e-4",
        "--grid.model.n_epochs=[2,4]",
        "--space.x.y",
        "{type:int}",
        "--seeds",
        "0-1",
    ]
    varied, rest = take_varied(words)
    assert varied["grid"] == {"model.lr": [1e-4, 3e-4], "model.n_epochs": [2, 4]} and rest == [
        "--seeds",
        "0-1",
    ]
    typed = {"grid": varied["grid"], "seeds": [0, 1], "overrides": {"run.env_steps": 64}}
    options = SweepOptions(config="ppo/cartpole", typed=typed)
    definition = read_options(options)
    assert definition.name == "sweep-ppo-cartpole" and definition.trials == 4 and definition.seeds == [0, 1]
    assert config_of(definition, definition.points[0], 1)["run"]["env_steps"] == 64
    (tmp_path / "whole.yaml").write_text(
        text_of(options)
    )  # the sweep's folder has it, and it is a sweep by itself
    again = read_options(SweepOptions(config="./whole.yaml", name=definition.name))
    assert again.identity() == definition.identity()


def test_what_is_typed_goes_over_a_sweeps_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text("base_config: ppo/cartpole\ngrid: {model.lr: [1.0e-3]}\nseeds: [0]")
    typed = {"grid": {"model.gamma": [0.9, 0.99]}, "seeds": [3]}
    definition = read_options(SweepOptions(config="./s.yaml", typed=typed))
    assert definition.seeds == [3] and definition.points[1] == {"model.lr": 1e-3, "model.gamma": 0.99}


def test_a_config_alone_is_no_sweep():
    with pytest.raises(ConfigError, match="--grid"):
        read_options(SweepOptions(config="ppo/cartpole"))
    with pytest.raises(ConfigError, match="needs a value"):
        take_varied(["--grid.model.lr", "--seeds", "0"])
