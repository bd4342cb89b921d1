"""Tiny runs by `rl` in this process or in a fork of it, and what they leave, ready to be compared bit for bit."""

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.cli import main

NET = {"class_path": "MLP", "init_args": {"hidden_dims": [8]}}
PENDULUM = {"id": "Pendulum-v1", "max_episode_steps": 20}
REPLAY = {"class_path": "Replay", "init_args": {"capacity": 200}}
TURNS = {
    "num_envs": 2,
    "batch_size": 8,
    "buffer": REPLAY,
    "learning_starts": 16,
    "train_every": 8,
    "utd_ratio": 0.5,
}
COMMON: dict[str, Any] = {"log": {"tensorboard": False, "every": 16}, "threads": 1, "seed_everything": 3}
SAC: dict[str, Any] = {
    "model": {"class_path": "SAC", "init_args": {"network": NET, "critic_hidden_dims": [8]}},
    "data": {"class_path": "OnlineData", "init_args": {"env": PENDULUM, **TURNS}},
    "run": {"env_steps": 96, "eval_every": 32, "eval_episodes": 2, "save_every": 16},
    **COMMON,
}
PPO: dict[str, Any] = {
    "model": {"class_path": "PPO", "init_args": {"network": NET, "n_epochs": 2, "minibatch_size": 16}},
    "data": {
        "class_path": "OnPolicyData",
        "init_args": {"env": {"id": "CartPole-v1"}, "num_envs": 2, "rollout_steps": 8},
    },
    "run": {"env_steps": 96, "eval_every": 32, "eval_episodes": 2, "save_every": 16},
    **COMMON,
}


class Result(NamedTuple):
    code: int
    out: str
    err: str


Rl = Callable[..., Result]


def write(folder: Path, name: str, config: dict[str, Any]) -> str:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the runs of a test go; its configs lie beside them."""
    folder = tmp_path / "logs"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_LOGS", str(folder))
    for name in ("LOCAL_RANK", "RANK", "RL_RUN_DIR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)  # and at the end again, whatever the run has set
    return folder


@pytest.fixture
def rl(logs: Path, capsys: pytest.CaptureFixture[str]) -> Rl:
    def call(*words: str) -> Result:
        capsys.readouterr()
        code = main(list(words))
        return Result(code, *capsys.readouterr())

    return call


def fork(words: list[str], log: Path, before: Callable[[], None] | None = None) -> int:
    """`rl` in a child that need not import anything; `before` may change the child first. Returns its pid."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(target, 1)
        os.dup2(target, 2)
        sys.stdout = sys.stderr = os.fdopen(target, "w", buffering=1)
        if before is not None:
            before()
        code = main(words)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def wait(pid: int, seconds: float = 60.0) -> int:
    """Exit code of a child; minus the signal's number if one ended it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError(f"the child did not end within {seconds} s")


def serial(run: Path) -> int:
    """Number of the newest generation; 0 if there is none."""
    found = CheckpointStore(run / "checkpoints").checkpoints()
    return int(found[-1].name.removeprefix("last-")) if found else 0


def copy_run(source: Path, logs: Path, name: str) -> Path:
    return Path(shutil.copytree(source, logs / name))
