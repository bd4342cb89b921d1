"""What a wrong command line says: one to three lines, the right exit code, nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from rl_lightning.cli.explain import explain

from .conftest import Rl

CASES = [
    (["--model.lrr", "3"], "PPO has no option 'lrr'; did you mean 'lr'?"),
    (["--model.lr", "abc"], "model.lr: expected float, got abc"),
    (["--model.lr", "-1"], "model.lr is -1.0; it must not be negative"),
    (["--model.gamma", "1.5"], "model.gamma is 1.5; it lies between 0 and 1"),
    (["--model.max_grad_norm", "-1"], "model.max_grad_norm is -1.0; it must be above 0"),
    (["--model.epochs", "0"], "model.epochs is 0; it must be at least 1"),
    (["--data.num-envs", "1.5"], "data.num_envs: expected int, got 1.5"),
    (["--data.num_envs", "0"], "data.num_envs is 0"),
    (["--run.env_stepz", "3"], "run has no option 'env_stepz'; did you mean 'env_steps'?"),
    (["--env_steps", "-5"], "run.env_steps is -5"),
    (["--env_steps", "null"], "the run has no end"),
    (["--model", "PPOO"], "model: there is no class 'PPOO'; did you mean 'PPO'"),
    (["--model", "SAC"], "SAC needs continuous actions; CartPole-v1 has discrete"),
    (["--data", "SAC"], "is no RLData"),
    (["--model.network", "MLPP"], "model.network: there is no class 'MLPP'; did you mean 'MLP'"),
    (
        ["--model.network", "MLP", "--model.network.hiden", "[1]"],
        "MLP has no option 'hiden'; did you mean 'hidden'?",
    ),
    (["--model.network.hidden", "[8]"], "model.network: takes a Network, one of"),
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
    (["--trainer.accumulate_grad_batches", "2"], "--trainer.callbacks.accumulate 2"),
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
    assert result.code == 2 and "start from a shipped one" in result.err


def test_unknown_command_and_nearest(rl: Rl) -> None:
    result = rl("fitt")
    assert result.code == 2 and result.err == "error: rl has no command 'fitt'; did you mean 'fit'?\n"


def test_debug_shows_the_traceback(rl: Rl) -> None:
    result = rl("test", "nothing", "--debug")
    assert result.code == 2 and "Traceback" in result.err and "error: no run 'nothing'" in result.err


def test_our_bug_is_told_apart(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.tools as tools

    def broken(words: list[str]) -> int:
        raise ZeroDivisionError("1/0")

    monkeypatch.setattr(tools, "doctor", broken)
    result = rl("doctor")
    assert result.code == 1 and "--debug" in result.err and "Traceback" not in result.err


def test_ctrl_c_before_training(rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    import rl_lightning.cli.tools as tools

    def interrupted(words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(tools, "doctor", interrupted)
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
