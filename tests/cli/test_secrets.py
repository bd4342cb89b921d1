"""A secret goes to the env it is for, and into no file; a resumed run gets it again from the user or a variable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rl_lightning.errors import ConfigError
from rl_lightning.redaction import REDACTED
from rl_lightning.runs.config.compose import compose, fill_variables
from rl_lightning.runs.store.run_folder import Run

from .conftest import CARTPOLE, Rl

SECRET = "hunter2-very-secret"
ENV = """
import gymnasium
import numpy as np


class Login(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, api_key="", auth=None):
        assert api_key == "hunter2-very-secret", api_key
        self.api_key, self.url, self.inner, self.t = api_key, f"http://x?k={api_key}", {"k": [api_key]}, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        assert self.url.endswith(self.inner["k"][0]) and self.api_key == "hunter2-very-secret"
        self.t += 1
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, False, self.t >= 20, {}


gymnasium.register("Login-v0", Login)
"""
IMPORT = ["--import", "login_env_for_tests"]


@pytest.fixture
def login(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (workdir / "login_env_for_tests.py").write_text(ENV)
    monkeypatch.syspath_prepend(str(workdir))
    text = CARTPOLE.replace("{id: CartPole-v1}", "{id: Login-v0}").replace(
        "tensorboard: false", "tensorboard: true"
    )
    (workdir / "login.yaml").write_text(text)
    return workdir


def holders(folder: Path) -> list[str]:
    return [
        str(path) for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]


def test_no_file_of_a_run_holds_it_and_resume_asks_again(rl: Rl, login: Path) -> None:
    done = rl(
        "fit", "--config", "login.yaml", "--name", "a", *IMPORT, "--data.env.kwargs", f"{{api_key: {SECRET}}}"
    )
    assert done.code == 0, done.err
    assert holders(login / "lightning_logs") == []
    before = (login / "lightning_logs/a/run.json").read_text()
    refused = rl("resume", "a", *IMPORT, "--env_steps", "128")
    assert refused.code == 2 and "--data.env.kwargs.api_key VALUE" in refused.err
    assert (login / "lightning_logs/a/run.json").read_text() == before
    flag = ["--data.env.kwargs.api_key", SECRET]
    again = rl("resume", "a", *IMPORT, "--env_steps", "128", *flag)
    assert again.code == 0 and SECRET not in again.err and "differs from the checkpoint: run.env" in again.err
    assert (
        Run(login / "lightning_logs/a").read()["env_step"] == 128 and holders(login / "lightning_logs") == []
    )


def test_a_variable_is_written_as_it_was(rl: Rl, login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE", SECRET)
    text = (
        (login / "login.yaml")
        .read_text()
        .replace("{id: Login-v0}", "{id: Login-v0, kwargs: {api_key: '${SERVICE}'}}")
    )
    (login / "login.yaml").write_text(text)
    assert rl("fit", "--config", "login.yaml", "--name", "a", *IMPORT).code == 0
    kept = yaml.safe_load((login / "lightning_logs/a/config.yaml").read_text())
    assert kept["data"]["init_args"]["env"]["kwargs"]["api_key"] == "${SERVICE}"
    assert holders(login / "lightning_logs") == []
    again = rl("resume", "a", *IMPORT, "--env_steps", "128")
    assert again.code == 0 and "api_key" not in again.err, again.err


def test_a_pipeline_keeps_it_out_too(rl: Rl, login: Path) -> None:
    stage = yaml.safe_load((login / "login.yaml").read_text())
    (login / "p.yaml").write_text(
        yaml.safe_dump({"stages": [{"name": "one", "config": stage}], "run": {"name": "p"}})
    )
    flag = ["--data.env.kwargs.api_key", SECRET]
    assert rl("fit", "--config", "./p.yaml", *IMPORT, *flag).code == 0
    assert holders(login / "lightning_logs") == [] == holders(login / "checkpoints")
    assert REDACTED in json.dumps(Run(login / "lightning_logs/p").read()["flags"])
    refused = rl("resume", "p", *IMPORT)
    assert refused.code == 2 and "--data.env.kwargs.api_key VALUE" in refused.err
    again = rl("resume", "p", *IMPORT, *flag)
    assert again.code == 0, again.err


@pytest.mark.parametrize("text", ["${AWS_SECRET_ACCESS_KEY}", "x-${MY_API_TOKEN:none}", "a ${PGPASS} ://"])
def test_a_config_does_not_reach_for_secrets(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "MY_API_TOKEN", "PGPASS"):
        monkeypatch.setenv(name, SECRET)
    with pytest.raises(ConfigError, match="looks like a secret") as caught:
        fill_variables({"run": {"tags": [text]}})
    assert SECRET not in str(caught.value)
    assert fill_variables({"storage": "a://me:${PGPASS}@h"}) == {"storage": f"a://me:{SECRET}@h"}


def test_a_sweep_writes_no_secret(rl: Rl, login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = {
        "base_config": "./login.yaml",
        "grid": {"model.lr": [1e-3]},
        "overrides": {"data.env.kwargs.api_key": SECRET},
    }
    (login / "s.yaml").write_text(yaml.safe_dump(sweep))
    refused = rl("sweep", "--config", "./s.yaml", *IMPORT)
    assert (
        refused.code == 2
        and "environment variable" in refused.err
        and not (login / "lightning_logs").exists()
    )
    monkeypatch.setenv("SERVICE", SECRET)
    sweep["overrides"] = {"data.env.kwargs.api_key": "${SERVICE}"}
    (login / "s.yaml").write_text(yaml.safe_dump(sweep))
    shown = rl("sweep", "--config", "./s.yaml", "--dry_run", *IMPORT)
    assert shown.code == 0 and SECRET not in shown.out and "${SERVICE}" in shown.out


def test_a_filled_config_is_whole(login: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATE", "0.5")
    (login / "x.yaml").write_text("model: {class_path: PPO, init_args: {lr: '${RATE}'}}\n")
    assert compose(["./x.yaml"])["model"]["init_args"]["lr"] == 0.5
