"""Well-known words of other libraries, as a user types them: flag, YAML key and Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import rl_lightning
from cli.conftest import Rl
from rl_lightning.errors import ConfigError

LR = "SB3 and CleanRL's word for model.lr: --model.lr"
WORDS = [
    ("ppo/cartpole", "--model.learning_rate", "1e-3", f"PPO has no option 'learning_rate'; {LR}"),
    ("ppo/cartpole", "--learning-rate", "1e-3", f"rl fit has no option '--learning_rate'; {LR}"),
    ("ppo/cartpole", "--n_steps", "128", "SB3's word for data.rollout_steps: --data.rollout_steps"),
    ("ppo/cartpole", "--data.n_steps", "128", "OnPolicyData has no option 'n_steps'; SB3's word for data.rollout_"),
    ("sac/pendulum", "--n_steps", "3", "SB3's word for model.n_step: --model.n_step"),
    ("sac/pendulum", "--gradient_steps", "1", "SB3's word for data.utd_ratio: --data.utd_ratio"),
    ("sac/pendulum", "--model.ent_coef", "auto", "SAC has no option 'ent_coef'; SB3's word for model.alpha: --model"),
    ("sac/pendulum", "--model.target_update_interval", "1", "has no counterpart: the targets move at every update"),
    ("dqn/cartpole", "--model.target_update_interval", "9", "SB3 and d3rlpy's word for model.target_every:"),
    ("dqn/cartpole", "--exploration_fraction", "0.5", "SB3 and CleanRL's word for model.epsilon_schedule.fraction:"),
    ("ppo/cartpole", "--run.total_timesteps", "9", "run has no option 'total_timesteps'; SB3 and CleanRL's word for"),
    ("gormpo/hopper-medium-v2", "--real-ratio", "0.5", "OfflineRL-Kit's word for data.real_ratio: --data.real_"),
    ("ppo/cartpole", "--trainer.max_grad_norm", "1", "SB3 and CleanRL's word for model.max_grad_norm: --model.max_"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "flag", "value", "told"), WORDS, ids=[f"{row[0]} {row[1]}" for row in WORDS]
)
def test_a_flag_of_another_library(rl: Rl, config: str, flag: str, value: str, told: str) -> None:
    result = rl("fit", "--config", config, flag, value, "--print_config")
    assert result.code == 2 and result.err.count("\n") == 1, result
    assert told in result.err and "did you mean" not in result.err


def test_the_flag_that_is_told_works(rl: Rl) -> None:
    result = rl(
        "fit", "--config", "ppo/cartpole", "--total_timesteps", "77", "--model.lr", "0.5", "--print_config"
    )
    assert result.code == 0 and "env_steps: 77" in result.out and "lr: 0.5" in result.out


def test_a_config_is_found_after_the_flag_too(rl: Rl) -> None:
    result = rl("fit", "--n_steps", "3", "--config", "sac/pendulum")
    assert "word for model.n_step:" in result.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("model: {init_args: {learning_rate: 1e-3}}", f"PPO has no option 'learning_rate'; {LR}"),
        ("model: {class_path: PPO, learning_rate: 1e-3}", f"arguments go under init_args; {LR}"),
        ("total_timesteps: 9", "unknown key 'total_timesteps'; SB3 and CleanRL's word for run.env_steps:"),
        (
            "run: {total_timesteps: 9}",
            "run has no option 'total_timesteps'; SB3 and CleanRL's word for run.env_steps:",
        ),
        (
            "data: {init_args: {env: {noop_max: 9}}}",
            "data.env has no option 'noop_max'; SB3 and MBARC's word for",
        ),
    ],
)
def test_a_key_of_another_library(rl: Rl, text: str, told: str) -> None:
    Path("other.yaml").write_text(text)
    result = rl("fit", "--config", "cartpole.yaml", "--config", "other.yaml")
    assert result.code == 2 and told in result.err and result.err.count("\n") == 1, result.err


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (
            "model.learning_rate",
            "PPO has no option 'learning_rate'; SB3 and CleanRL's word for model.lr: \"model.lr\"",
        ),
        ("model.n_steps", 'SB3\'s word for data.rollout_steps: "data.rollout_steps"'),
        (
            "total_timesteps",
            "no option 'total_timesteps'; SB3 and CleanRL's word for run.env_steps: env_steps=",
        ),
    ],
)
def test_an_argument_of_another_library(workdir: Path, key: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        rl_lightning.fit("ppo/cartpole", {key: 1e-3})
    assert told in str(refused.value) and "--" not in str(refused.value)


def test_nothing_is_said_where_nothing_is_near(rl: Rl) -> None:
    result = rl("fit", "--config", "cartpole.yaml", "--data.env.id", "FooBar-v9")
    assert result.code == 2 and result.err == "error: unknown env id 'FooBar-v9'\n"
    result = rl("fit", "--config", "cartpole.yaml", "--data.env.id", "lab/Robot-v0")
    assert result.err.endswith("'lab/Robot-v0'; if a package of yours registers it, add: --import PACKAGE\n")
    result = rl("fit", "--config", "cartpole.yaml", "--data.env.id", "gym/Pendulum-v1")
    assert result.err.endswith("did you mean 'Pendulum-v1'?\n")


def test_what_varies_is_a_grid(rl: Rl) -> None:
    Path("swept.yaml").write_text("sweep: {model.lr: [1, 2]}\n")
    assert "what varies is grid:" in rl("fit", "--config", "cartpole.yaml", "--config", "swept.yaml").err
    assert "--grid.model.lr A,B" in rl("sweep", "--config", "cartpole.yaml", "--sweep.model.lr", "1,2").err


def test_several_metrics_without_a_comma(rl: Rl) -> None:
    result = rl("plot", "x", "--metric", "eval/return", "train/loss")
    assert result.code == 2 and "--metric eval/return,train/loss" in result.err


def test_a_command_is_told_of_its_own_flags(rl: Rl) -> None:
    assert "RL Zoo's word for rl sweep --trials" in rl("sweep", "x.yaml", "--n-trials", "3").err
    assert "word for" not in rl("plot", "x", "--learning_rate", "3").err


@pytest.mark.parametrize(
    ("flag", "told"),
    [("--run.eval_ev", "did you mean 'eval_every'?"), ("--trainer.max_epoch", "OfflineRL-Kit's word for")],
)
def test_half_an_option_is_none(rl: Rl, flag: str, told: str) -> None:
    result = rl("fit", "--config", "cartpole.yaml", flag, "1")
    assert result.code == 2 and told in result.err, result.err
