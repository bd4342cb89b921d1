"""What a wrong command line says: one to three lines, the right exit code, nothing left behind."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rl_lightning.runs.config.config_errors import explain

from .conftest import Rl

CASES = [
    (["--model.lrr", "3"], "PPO has no option 'lrr'; did you mean 'lr'?"),
    (["--model.lr", "abc"], "model.lr: expected float, got abc"),
    (["--lr", "1e-3"], "rl fit has no option '--lr'; it is --model.lr"),
    (
        ["--model.optimizer", "Nope"],
        "there is no class 'Nope'; choose Adafactor, Adam, AdamW, LaProp, RMSprop, SGD",
    ),
    (["--model.network", "GRU"], "model.network: no class of ours is called 'GRU'; torch's is torch.nn.GRU"),
    (["--model.lr", "-1"], "model.lr is -1.0; it must not be negative"),
    (["--model.gamma", "1.5"], "model.gamma is 1.5; it lies between 0 and 1"),
    (["--model.max_grad_norm", "-1"], "model.max_grad_norm is -1.0; it must be above 0"),
    (["--trainer.precision", "16-true"], "trainer.precision is 16-true; it must be 32-true or bf16-mixed"),
    (["--trainer.precision", "64-true"], "trainer.precision is 64-true"),
    (["--trainer.precision", "16-mixed"], "trainer.precision is 16-mixed"),
    (["--trainer.precision", "16"], "trainer.precision is 16"),
    (["--trainer.precision", "bf16-true"], "trainer.precision is bf16-true"),
    (
        ["--trainer.plugins", "lightning.pytorch.plugins.DoublePrecision"],
        "trainer.plugins is DoublePrecision; it must be 32-true or bf16-mixed",
    ),
    (["--model.n_epochs", "0"], "model.n_epochs is 0; it must be at least 1"),
    (["--data.num-envs", "1.5"], "data.num_envs: expected int, got 1.5"),
    (["--data.num_envs", "0"], "data.num_envs is 0"),
    (["--run.env_stepz", "3"], "run has no option 'env_stepz'; did you mean 'env_steps'"),
    (["--env_steps", "-5"], "run.env_steps is -5"),
    (["--env_steps", "null"], "the run has no end"),
    (["--model", "PPOO"], "model: there is no class 'PPOO'; did you mean 'PPO'"),
    (["--model", "SAC"], "SAC learns from Transitions"),
    (["--data", "SAC"], "is not a subclass of RLData"),
    (["--model.network", "MLPP"], "model.network: there is no class 'MLPP'; did you mean 'MLP'"),
    (
        ["--model.network", "MLP", "--model.network.hiden", "[1]"],
        "MLP has no option 'hiden'; did you mean 'hidden_dims'?",
    ),
    (["--model.lr_schedule.end", "0"], "model.lr_schedule: takes a Schedule, one of"),
    (["--data.env", "[5]"], "data.env: expected"),
    (["--run", "3"], "run: expected `key: value` settings, got 3"),
    (["--data.env.idd", "x"], "data.env has no option 'idd'; did you mean 'id'?"),
    (["--data.env.id", "CartPol-v1"], "did you mean 'CartPole-v1'"),
    (["--trainer.acelerator", "cpu"], "trainer has no option 'acelerator'; did you mean 'accelerator'?"),
    (["--trainer.accelerator", "gpuu"], "trainer: "),
    (
        ["--trainer.callbacks", "ModelCheckpoint", "--trainer.callbacks.monitr", "x"],
        "did you mean 'monitor'?",
    ),
    (["--seed", "x"], "seed_everything: expected int, got x"),
    (["--seed=-3"], "seed_everything is -3"),
    (["--seed", "99999999999999"], "seed_everything is 99999999999999; it must be at most 4294967295"),
    (["--trainer.gradient_clip_val", "1"], "--model.max_grad_norm 1"),
    (["--trainer.accumulate_grad_batches", "2"], "--trainer.callbacks.accumulate_grad_batches 2"),
    (["--threads", "0"], "threads is 0"),
    (["--import", "not_there_at_all"], "no module 'not_there_at_all'"),
    (["--import", "a b"], "takes a package"),
    (["--render", "ansi"], "--render takes human"),
    (["--seeds", "4-1"], "--seeds '4-1'"),
    (["--bogus", "1"], "rl fit has no option '--bogus'"),
    (["--name", "../x"], "is not allowed"),
    (["--config", "nope.yaml"], "nope.yaml: no such file"),
]


@pytest.mark.parametrize(
    ("words", "reason"), CASES, ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else ""
)
def test_wrong_command_lines(rl: Rl, workdir: Path, words: list[str], reason: str) -> None:
    result = rl("fit", "--config", "cartpole.yaml", *words)
    lines = result.err.strip().splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert result.code == 2, result
    assert len(errors) == 1 and reason in errors[0], result.err
    assert len(lines) - lines.index(errors[0]) <= 3 and "Traceback" not in result.err
    assert not list(workdir.glob("lightning_logs/*"))


BAD_FILES = {
    "unknown key": ("model: {class_path: PPO, init_args: {lrr: 3}}", "PPO has no option 'lrr'"),
    "wrong type": ("model: {class_path: PPO, init_args: {lr: abc}}", "model.lr: expected float, got abc"),
    "unknown class": ("model: {class_path: Nope}", "there is no class 'Nope'"),
    "key beside class_path": ("model: {class_path: PPO, lr: 3}", "model: 'lr' stands beside class_path"),
    "init_args no mapping": ("model: {init_args: 3}", "model.init_args"),
    "list for a group": ("run: [1, 2]", "run"),
    "number for a group": ("data: 3", "data"),
    "word for env": ("data: {init_args: {env: 5}}", "env"),
    "pipeline": ("stages: []", "stages"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_wrong_files(rl: Rl, workdir: Path, case: str) -> None:
    text, reason = BAD_FILES[case]
    Path("bad.yaml").write_text(text)
    result = rl("fit", "--config", "cartpole.yaml", "--config", "bad.yaml")
    assert result.code == 2, result
    assert reason in result.err and "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) <= 3


def test_missing_parts_and_no_arguments(rl: Rl, workdir: Path) -> None:
    assert rl("fit").code == 2
    Path("empty.yaml").write_text("run: {env_steps: 3}")
    result = rl("fit", "--config", "empty.yaml")
    assert result.code == 2 and "empty.yaml is a fragment" in result.err


def test_unknown_command_and_nearest(rl: Rl) -> None:
    result = rl("fitt")
    assert result.code == 2 and result.err == "error: rl has no command 'fitt'; did you mean 'fit'?\n"


def test_debug_shows_the_traceback(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.desk.doctor as verb

    def broken(words: list[str]) -> int:
        raise ZeroDivisionError("1/0")

    monkeypatch.setattr(verb, "doctor", broken)
    result = rl("doctor", "--debug")
    assert result.code == 1 and "Traceback" in result.err and "ZeroDivisionError" in result.err


def test_what_was_typed_wrong_is_a_line_under_debug_too(rl: Rl, workdir: Path) -> None:
    (workdir / "own.yaml").write_text(
        "model: {class_path: my_package.Mine}\ndata: {class_path: OnPolicyData, init_args: {env: {id: CartPole-v1}}}\n"
    )
    result = rl("fit", "--config", "./own.yaml", "--debug")
    assert result.code == 2 and "add: --import my_package" in result.err and len(result.err.splitlines()) == 1


def test_our_bug_is_told_apart(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.desk.doctor as verb

    def broken(words: list[str]) -> int:
        raise ZeroDivisionError("1/0")

    monkeypatch.setattr(verb, "doctor", broken)
    result = rl("doctor")
    assert result.code == 1 and "--debug" in result.err and "Traceback" not in result.err


def test_ctrl_c_before_training(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.desk.doctor as verb

    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "doctor", interrupted)
    assert rl("doctor").code == 130


def test_explain_never_fails() -> None:
    for text in ("", "\n\n", "Parser key", 'Parser key "a":', "- - -", "Errors:\n  - x", "Expected"):
        assert isinstance(explain(text), str)


@pytest.mark.parametrize(("word", "meant"), [("train", "fit"), ("evaluate", "test"), ("analyze", "report")])
def test_commands_of_other_tools_are_led_to_ours(rl: Rl, word: str, meant: str) -> None:
    done = rl(word)
    assert done.code == 2 and f"did you mean '{meant}'?" in done.err


def test_what_is_refused_while_it_is_set_up_leaves_no_run(rl: Rl, workdir: Path) -> None:
    words = ["--model", "DQN", "--data", "OnlineData", "--data.buffer", "Replay"]
    done = rl(
        "fit",
        "--config",
        "cartpole.yaml",
        *words,
        "--data.buffer.capacity",
        "10000000000000",
        "--name",
        "big",
    )
    assert done.code == 2 and "GB are free" in done.err
    assert not (workdir / "lightning_logs/big").exists()


BROKEN_ENV = """
import gymnasium
import numpy as np


class Broken(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, error="RuntimeError"):
        self.error, self.resets = error, 0

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        if self.resets > 1:
            raise KeyboardInterrupt if self.error == "KeyboardInterrupt" else RuntimeError("no simulator")
        return np.zeros(3, np.float32), {}


gymnasium.register("BrokenReset-v0", Broken)
"""


@pytest.mark.parametrize(("error", "code"), [("RuntimeError", 6), ("KeyboardInterrupt", 130)])
@pytest.mark.parametrize("pipeline", [False, True])
def test_a_run_that_fails_before_it_trains_leaves_no_folder(
    rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch, error: str, code: int, pipeline: bool
) -> None:
    """The first reset describes the env; the second, of training, fails."""
    (workdir / "broken_env_for_tests.py").write_text(BROKEN_ENV)
    monkeypatch.syspath_prepend(str(workdir))
    config = yaml.safe_load((workdir / "cartpole.yaml").read_text())
    config["data"]["init_args"] |= {
        "env": {"id": "BrokenReset-v0", "kwargs": {"error": error}},
        "num_envs": 1,
    }
    whole = {"stages": [{"name": "one", "config": config}]} if pipeline else config
    (workdir / "broken.yaml").write_text(yaml.safe_dump(whole))
    done = rl("fit", "--config", "broken.yaml", "--import", "broken_env_for_tests")
    assert done.code == code, done.err
    assert not list((workdir / "lightning_logs").iterdir())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_output_that_is_not_utf_8_ends_nothing(workdir: Path, encoding: str) -> None:
    """From the first line to the last, also where a stage's title has signs of its own."""
    stage = yaml.safe_load((workdir / "cartpole.yaml").read_text())
    (workdir / "p.yaml").write_text(yaml.safe_dump({"stages": [{"name": "one", "config": stage}]}))
    known = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(Path(__file__).parents[2])}
    words = [sys.executable, "-m", "rl_lightning.cli", "fit", "--config", "./p.yaml"]
    done = subprocess.run(words, capture_output=True, env=known, check=False)
    assert done.returncode == 0, done.stderr
    assert b"pipeline done" in done.stdout


@pytest.mark.parametrize(("logger", "package"), [("MLFlowLogger", "mlflow"), ("CometLogger", "comet-ml")])
def test_a_missing_logger_package_is_named(rl: Rl, workdir: Path, logger: str, package: str) -> None:
    if importlib.util.find_spec(package.replace("-", "_")) is not None:
        pytest.skip(f"{package} is installed")
    done = rl("fit", "--config", "cartpole.yaml", "--trainer.logger", f"lightning.pytorch.loggers.{logger}")
    assert done.code == 2 and f"pip install '{package}" in done.err
    assert not list(workdir.glob("lightning_logs/*"))
