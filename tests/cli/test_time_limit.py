"""An env that never ends an episode: evaluation says so, cuts, counts and ends, in every command that plays."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from .conftest import Rl

# One action for ever at a learning rate of nothing: the walker stands at a wall.
CLIFF = """\
model: {class_path: DQN, init_args: {lr: 1e-9, network: {class_path: MLP, init_args: {hidden_dims: [4]}}}}
data:
  class_path: OnlineData
  init_args: {env: {id: CliffWalking-v1}, num_envs: 1, batch_size: 4, learning_starts: 8}
run: {env_steps: 24, eval_every: 16, eval_episodes: 2}
log: {tensorboard: false}
threads: 1
"""
NOTE = "note: CliffWalking-v1 declares no time limit; evaluation cuts an episode after 10000 steps (--eval_max_steps N"


def test_every_command_that_plays_ends(rl: Rl, workdir: Path) -> None:
    (workdir / "cliff.yaml").write_text(CLIFF)
    done = rl("fit", "--config", "cliff.yaml", "--name", "c", "--eval_max_steps", "40")
    assert done.code == 0, done.err
    assert "declares no time limit" not in done.err, "who gave a cap knows"
    folder = workdir / "lightning_logs" / "c"
    rows = [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]
    assert rows and all(row["cut"] is True and row["length"] == 40 for row in rows)
    with (folder / "metrics.csv").open(newline="") as file:
        counts = [row["eval/cut"] for row in csv.DictReader(file) if row.get("eval/cut")]
    assert counts == ["2", "2"], "at the cadence and at the end"
    done = rl("test", "c", "--episodes", "3")
    assert done.code == 0 and "3 of 3 episodes cut" in done.out, done.err
    told = json.loads((folder / "test.json").read_text())
    assert told["cut"] == 3 and all(row["cut"] for row in told["episodes"])
    done = rl("play", "c", "--episodes", "2", "--no_video")
    assert done.code == 0 and "2 of 2 episodes cut" in done.out, done.err
    assert rl("predict", "c", "--episodes", "1", "--output", "p.npz").code == 0
    assert len(np.load("p.npz")["action"]) == 40


def test_without_a_cap_of_the_users_it_is_said_at_the_start(rl: Rl, workdir: Path) -> None:
    (workdir / "cliff.yaml").write_text(CLIFF)
    done = rl("fit", "--config", "cliff.yaml", "--name", "c", "--eval_episodes", "1", "--env_steps", "16")
    assert done.code == 0 and NOTE in done.err, done.err
    done = rl("validate", "c", "--eval_episodes", "1")
    assert done.code == 0 and NOTE in done.err and "1 of 1 episodes cut" in done.out, done.err


def test_a_cap_is_a_positive_number(rl: Rl, workdir: Path) -> None:
    done = rl("fit", "--config", "cartpole.yaml", "--eval_max_steps", "0")
    assert done.code == 2 and "run.eval_max_steps is 0; it must be positive" in done.err
