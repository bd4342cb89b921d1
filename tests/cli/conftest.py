"""A folder of its own for every test, and `rl` called in process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rl_lightning.cli import main

CARTPOLE = """\
# PPO on CartPole, tiny
model: {class_path: PPO, init_args: {lr: 1e-3, n_epochs: 1, minibatch_size: 32}}
data: {class_path: OnPolicyData, init_args: {env: {id: CartPole-v1}, num_envs: 2, rollout_steps: 16}}
run: {env_steps: 64, eval_every: 32, eval_episodes: 2}
log: {tensorboard: false}
threads: 1
"""


class Result(NamedTuple):
    code: int
    out: str
    err: str


Rl = Callable[..., Result]


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("RL_LOGS", "LOCAL_RANK", "RL_RUN_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "cartpole.yaml").write_text(CARTPOLE)
    return tmp_path


@pytest.fixture
def rl(workdir: Path, capsys: pytest.CaptureFixture[str]) -> Rl:
    def call(*words: str) -> Result:
        capsys.readouterr()
        code = main(list(words))
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call
