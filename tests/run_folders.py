"""Run folders without training: what the desk reads is files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from rl_lightning.cli import main

CREATED = "2026-01-01T00:00:00+00:00"


def write_run(folder: Path, values: Sequence[float] = (), config: Any = None, **fields: Any) -> Path:
    """A finished run whose evaluations gave `values`, one each 1000 steps."""
    folder.mkdir(parents=True)
    values = [float(value) for value in values]
    record = {
        "algorithm": "PPO", "env": "CartPole-v1", "seed": 0, "group": None, "status": "finished", "created": CREATED,
        "updated": CREATED, "env_step": 1000 * len(values), "update": len(values),
        "best": max(values, default=None), "last10": sum(values[-10:]) / len(values[-10:]) if values else None,
    } | fields  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    settings = config if config is not None else {"model": {"class_path": "rl_lightning.algorithms.online.ppo.PPO",
        "init_args": {"lr": 1e-3}}, "run": {"env_steps": 4000}}  # fmt: skip
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    lines = ["env_step,update,eval/return,train/loss,time/env_steps_per_s"]
    lines += [f"{1000 * (i + 1)},{i + 1},{value!r},{1.0 / (i + 1)!r},500" for i, value in enumerate(values)]
    (folder / "metrics.csv").write_text("\n".join(lines) + "\n")
    return folder


class Answer(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RL_LOGS", raising=False)
    return tmp_path / "lightning_logs"


@pytest.fixture
def add(logs: Path) -> Callable[..., Path]:
    return lambda name, values=(), **fields: write_run(logs / name, values, **fields)


@pytest.fixture
def rl(logs: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = main(list(words))
        found = capsys.readouterr()
        return Answer(code, found.out, found.err)

    return call
