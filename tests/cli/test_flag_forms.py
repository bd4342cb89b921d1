"""Forms of flags that people bring along: each works, or is told in one line what to type."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .conftest import Rl

REFUSED = {
    "model.lr=1e-4": "--model.lr 1e-4",
    "env_steps=100": "--env_steps 100",
    "--model.network.hidden_dims [64, 64]": "--model.network.hidden_dims '[64, 64]'",
    "--model.network.hidden_dims 64,64": "'[64,64]'",
    "--tags a,b": "'[a,b]'",
    "--seeds 1,x": "write a range (0-4) or a list (1,2,5)",
    "--model.lr": "--model.lr needs a value",
    "--name --seed 3": "--name needs a value",
    "--data.env.id": "--data.env.id needs a value",
    "--trainer.max_steps": "an option without a value means",
    "--gamma 0.9": "--model.gamma",
    "--env CartPole-v1": "--data.env.id",
    "--env_id CartPole-v1": "--data.env.id",
    "--device cuda": "--trainer.accelerator",
    "--env_steps 1.5": "expected int",
    "--env_steps 1e-6": "expected int",
}


@pytest.mark.parametrize("words", REFUSED)
def test_wrong_forms_say_the_right_one(rl: Rl, words: str) -> None:
    result = rl("fit", "--config", "cartpole.yaml", *words.split())
    assert result.code == 2 and REFUSED[words] in result.err
    assert result.err.count("\n") == 1


NOTHING_NEAR = [
    "--data.env.id FooBar-v9",
    "--data.env.id dmc/nosuch-task",
    "--model.optimizer foobarw",
    "--foobar 3",
]


@pytest.mark.parametrize("words", NOTHING_NEAR)
def test_nothing_is_suggested_where_nothing_is_near(rl: Rl, words: str) -> None:
    result = rl("fit", "--config", "cartpole.yaml", *words.split())
    assert result.code == 2 and "did you mean" not in result.err


def test_another_case_alone_is_suggested_alone(rl: Rl) -> None:
    result = rl("fit", "--config", "cartpole.yaml", "--model.optimizer", "adamw")
    assert "did you mean 'AdamW'?" in result.err


def printed(rl: Rl, *words: str) -> dict:
    result = rl("fit", *words, "--print_config")
    assert result.code == 0, result.err
    return dict(yaml.safe_load(result.out))


def test_whole_numbers_with_exponents(rl: Rl) -> None:
    Path("budget.yaml").write_text("run: {save_every: 2.5e4}")
    words = ["--env_steps", "1e6", "--model.lr", "1e0", "--name", "1e6"]
    config = printed(rl, "--config", "cartpole.yaml", "--config", "budget.yaml", *words)
    assert config["run"]["env_steps"] == 1_000_000 and config["run"]["save_every"] == 25_000
    assert isinstance(config["model"]["init_args"]["lr"], float)


@pytest.mark.parametrize(("model", "activation"), [("ppo/cartpole", "tanh"), ("sac/pendulum", "relu")])
def test_sizes_of_the_default_network(rl: Rl, model: str, activation: str) -> None:
    """The rest stays as the algorithm has it."""
    config = printed(rl, "--config", model, "--model.network.hidden_dims", "[64,32]")
    network = config["model"]["init_args"]["network"]
    assert network["class_path"].endswith(".MLP")
    assert (
        network["init_args"]["hidden_dims"] == [64, 32] and network["init_args"]["activation"] == activation
    )


def test_arguments_of_a_chosen_class_choose_no_other(rl: Rl) -> None:
    config = printed(
        rl, "--config", "ppo/cartpole", "--model.network", "RNN", "--model.network.hidden_dim", "8"
    )
    assert config["model"]["init_args"]["network"]["class_path"].endswith(".RNN")
    result = rl("fit", "--config", "ppo/cartpole", "--model.network.hiden", "[3]")
    assert "MLP has no option 'hiden'; did you mean 'hidden_dims'" in result.err


def test_switches_stand_alone(rl: Rl) -> None:
    config = printed(rl, "--config", "cartpole.yaml", "--log.tensorboard", "--model.normalize_obs")
    assert config["log"]["tensorboard"] is True and config["model"]["init_args"]["normalize_obs"] is True


@pytest.mark.parametrize("name", ["overlay/bf16", "env/noisy"])
def test_a_fragment_alone(rl: Rl, name: str) -> None:
    result = rl("fit", "--config", name)
    assert (
        result.code == 2 and "is a fragment" in result.err and f"--config NAME --config {name}" in result.err
    )


@pytest.mark.parametrize(("model", "data"), [("PPO", "OnPolicyData"), ("SAC", "OnlineData")])
def test_an_algorithm_without_data(rl: Rl, model: str, data: str) -> None:
    result = rl("fit", "--model", model, "--data.env.id", "CartPole-v1")
    assert result.code == 2 and f"--data {data}" in result.err


NEAR = {
    "cartpol.yaml": "'cartpole.yaml'",
    "cartpole": "'dqn/cartpole'",
    "./cartpol.yaml": "'./cartpole.yaml'",
    "configs/ppo/cartpole.yaml": "'ppo/cartpole'",
    "./configs/ppo/cartpol.yml": "'ppo/cartpole'",
    "gormpo/hoper-medium": "'gormpo/hopper-medium'",
}


@pytest.mark.parametrize("name", NEAR)
def test_configs_of_a_similar_name(rl: Rl, name: str) -> None:
    if "/" not in name and "." not in name:
        Path("cartpole.yaml").unlink()
    result = rl("fit", "--config", name)
    assert result.code == 2 and f"did you mean {NEAR[name]}" in result.err


def test_a_sweep_is_for_another_command(rl: Rl) -> None:
    assert "rl sweep --config" in rl("fit", "--config", "sweep/ppo-cartpole").err


@pytest.mark.parametrize(("key", "ours"), [("sweep", "grid"), ("parameters", "space")])
def test_a_sweep_in_other_words(rl: Rl, key: str, ours: str) -> None:
    Path("sweep.yaml").write_text(f"base_config: ppo/cartpole\n{key}: {{model.lr: [1e-3, 1e-4]}}")
    result = rl("sweep", "--config", "sweep.yaml")
    assert result.code == 2 and f"write {ours}:" in result.err


def test_filters_in_other_words(rl: Rl) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--env_steps", "32", "--name", "here").code == 0
    for text, said in (("environment=x", "'env'"), ("lr=3", "'model.lr'"), ("best>", "'best>100'")):
        result = rl("list", "--filter", text)
        assert result.code == 2 and said in result.err
    assert "did you mean" not in rl("list", "--filter", "qwertz=3").err
