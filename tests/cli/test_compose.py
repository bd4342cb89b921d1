"""Configs found, extended, overlaid and filled in."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_lightning.errors import ConfigError
from rl_lightning.runs.config import compose as composing
from rl_lightning.runs.config.compose import choose_classes, compose, merge

PPO = "rl_lightning.algorithms.online.ppo.PPO"


def write(name: str, text: str) -> str:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)
    return name


def test_overlay_left_to_right(workdir: Path) -> None:
    write("over.yaml", "model: {init_args: {lr: 5}}\nrun: {tags: [b]}\n")
    config = compose(["cartpole.yaml", "over.yaml"])
    assert config["model"] == {"class_path": PPO, "init_args": {"lr": 5, "n_epochs": 1, "minibatch_size": 32}}
    assert config["run"]["tags"] == ["b"] and config["run"]["env_steps"] == 64


def test_another_class_forgets_arguments_but_data_keep_their_env(workdir: Path) -> None:
    write("dqn.yaml", "model: DQN\ndata: {class_path: OnlineData, init_args: {batch_size: 7}}\n")
    config = compose(["cartpole.yaml", "dqn.yaml"])
    assert config["model"]["class_path"] == "rl_lightning.algorithms.online.dqn.DQN"
    assert "init_args" not in config["model"] and config["model"]["former"]["class_path"] == PPO
    assert config["data"]["init_args"] == {"env": {"id": "CartPole-v1"}, "batch_size": 7}


def test_same_class_by_short_and_full_name_keeps_arguments(workdir: Path) -> None:
    write("same.yaml", f"model: {{class_path: {PPO}, init_args: {{gamma: 0.5}}}}\n")
    assert compose(["cartpole.yaml", "same.yaml"])["model"]["init_args"]["lr"] == 1e-3


def test_flags_choose_classes_by_the_same_rule(workdir: Path) -> None:
    flags = ["--model.lr=3", "--model=DQN", "--data.class_path=OnlineData", "--data.env=Acrobot-v1"]
    config, rest = choose_classes(compose(["cartpole.yaml"]), flags)
    assert rest == ["--model.lr=3"]
    assert config["model"]["class_path"] == "rl_lightning.algorithms.online.dqn.DQN"
    assert "init_args" not in config["model"], "the former class's stay with it"
    assert config["data"]["init_args"] == {"env": {"id": "Acrobot-v1"}}


def test_lists_replace_and_inputs_stay_untouched() -> None:
    below, above = {"a": [1, 2], "b": {"c": 1}}, {"a": [3], "b": {"d": [4]}}
    result = merge(below, above)
    assert result == {"a": [3], "b": {"c": 1, "d": [4]}}
    result["b"]["d"].append(5)
    assert above == {"a": [3], "b": {"d": [4]}} and below == {"a": [1, 2], "b": {"c": 1}}


def test_extends_by_relative_path_name_and_list(workdir: Path) -> None:
    write("sub/child.yaml", "extends: [../cartpole.yaml, more.yaml]\nrun: {env_steps: 9}\n")
    write("sub/more.yaml", "run: {env_steps: 8, eval_episodes: 7}\n")
    run = compose(["sub/child.yaml"])["run"]
    assert run == {"env_steps": 9, "eval_every": 32, "eval_episodes": 7}


def test_extends_refuses_cycles_and_nonsense(workdir: Path) -> None:
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "extends: ./a.yaml\n")
    with pytest.raises(ConfigError, match="extends itself"):
        compose(["a.yaml"])
    write("c.yaml", "extends: {x: 1}\n")
    with pytest.raises(ConfigError, match="name or a list"):
        compose(["c.yaml"])
    write("d.yaml", "extends: nowhere/atall\n")
    with pytest.raises(ConfigError, match="no config 'nowhere/atall'"):
        compose(["d.yaml"])


def test_extends_by_two_ways_is_no_cycle(workdir: Path) -> None:
    write("left.yaml", "extends: cartpole.yaml\n")
    write("both.yaml", "extends: [left.yaml, cartpole.yaml]\n")
    assert compose(["both.yaml"])["run"]["env_steps"] == 64


def test_variables(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RL_STEPS", "1e3")
    write("v.yaml", "run: {env_steps: '${RL_STEPS}', name: 'a-${RL_STEPS}', tags: ['${RL_TAG:x y}']}\n")
    assert compose(["v.yaml"])["run"] == {"env_steps": 1000.0, "name": "a-1e3", "tags": ["x y"]}
    write("w.yaml", "run: {tags: ['${RL_NOT_SET_ANYWHERE}']}\n")
    with pytest.raises(ConfigError, match=r"run.tags\[0\]: environment variable RL_NOT_SET_ANYWHERE"):
        compose(["w.yaml"])


def test_a_variable_brings_no_structure(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RL_EVIL", "{class_path: os.system}")
    write("v.yaml", "model: {init_args: {network: '${RL_EVIL}'}}\n")
    assert compose(["v.yaml"])["model"]["init_args"]["network"] == "{class_path: os.system}"


def test_unknown_top_level_key(workdir: Path) -> None:
    write("k.yaml", "modle: {}\n")
    with pytest.raises(ConfigError, match="unknown key 'modle'; did you mean 'model'"):
        compose(["k.yaml"])


def test_shipped_names(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("shelf/ppo/cartpole.yaml", "# PPO · nothing · a minute\nrun: {env_steps: 1}\n")
    write("shelf/network/gru.yaml", "extends: ppo/cartpole\nrun: {updates: 2}\n")
    monkeypatch.setattr(composing, "config_roots", lambda: [workdir / "shelf"])
    assert compose(["network/gru"])["run"] == {"env_steps": 1, "updates": 2}
    assert list(composing.shipped()) == ["network/gru", "ppo/cartpole"]
    with pytest.raises(ConfigError, match="no config 'ppo/cartpol'; did you mean 'ppo/cartpole'"):
        compose(["ppo/cartpol"])


@pytest.mark.parametrize(
    "name", ["", " ", "../../etc/passwd", "/nowhere.yaml", "ppo/../../x", "a\0b", "~nobody/x.yaml"]
)
def test_strange_names_are_refused(workdir: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        compose([name])


def test_shorthands(workdir: Path) -> None:
    write("s.yaml", "model: SAC\ndata: {class_path: OnlineData, init_args: {env: Pendulum-v1}}\nrun:\n")
    config = compose(["cartpole.yaml", "s.yaml"])
    assert config["model"]["class_path"] == "rl_lightning.algorithms.online.sac.SAC"
    assert config["data"]["init_args"]["env"] == {"id": "Pendulum-v1"}
    assert config["run"]["env_steps"] == 64  # an empty group says nothing
