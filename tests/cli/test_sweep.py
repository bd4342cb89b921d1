"""`rl sweep`, `rl watch` and `rl tensorboard` as a user types them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rl_lightning.runs.store.run_folder import Run

from .conftest import Rl

pytest.importorskip("optuna")

ROOT = Path(__file__).parents[2]
RL = [sys.executable, "-m", "rl_lightning.cli"]
GRID = {
    "base_config": "./cartpole.yaml", "grid": {"model.lr": [1e-3, 1e-2]}, "parallel_jobs": 2, "storage": "journal",
    "overrides": {"run.env_steps": 64},
}  # fmt: skip


def write(workdir: Path, name: str = "s", **changes) -> Path:
    path = workdir / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**GRID, **changes}))
    return path


def trials(workdir: Path, name: str = "s") -> list[dict[str, str]]:
    with open(workdir / "lightning_logs" / name / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_sweep_from_yaml_to_best_config(rl: Rl, workdir: Path) -> None:
    """Trains two settings, and `rl fit` of best.yaml gives the best one's score again."""
    write(workdir)
    done = rl("sweep", "--config", "./s.yaml")
    assert done.code == 0, done.out + done.err
    assert [row["state"] for row in trials(workdir)] == ["complete", "complete"]
    folder = workdir / "lightning_logs/s"
    assert {path.name for path in (folder / "plots").iterdir()} >= {
        "history.png",
        "parallel.png",
        "slices.png",
    }
    best = folder / "best.yaml"
    score = float(best.read_text().splitlines()[0].rpartition(" ")[2])
    assert score == max(float(row["score"]) for row in trials(workdir))
    assert rl("fit", "--config", str(best), "--name", "again").code == 0
    assert Run(workdir / "lightning_logs/again").read()["last10"] == score
    again = rl("sweep", "--config", "./s.yaml", "--no_plots")
    assert again.code == 0 and "2 of 2 trials complete" in again.out and "\ntrial 0:" not in again.out
    assert "s " in rl("sweep", "--list").out
    assert "2 finished" in rl("watch", "s").out


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_twelve_ppo_trials_killed_twice(workdir: Path, storage: str) -> None:
    """Two jobs, kill -9, Ctrl-C, and the end: twelve trials, none lost or doubled, each as if never stopped."""
    write(workdir, grid={"model.lr": [round(1e-3 * (i + 1), 4) for i in range(12)]}, storage=storage,
          set={"run.env_steps": 640, "run.save_every": 64})  # fmt: skip
    logs = workdir / "lightning_logs"
    for number, (share, kind) in enumerate(((3, signal.SIGKILL), (7, signal.SIGINT))):
        with subprocess.Popen([*RL, "sweep", "--config", "./s.yaml"], cwd=workdir) as process:
            try:
                wait_for(lambda share=share: len(list(logs.glob("s-*/metrics.csv"))) >= share)
            finally:
                process.send_signal(kind)
        assert process.returncode == (-9 if number == 0 else 130)
    subprocess.run([*RL, "sweep", "--config", "./s.yaml"], cwd=workdir, check=True, stdout=subprocess.DEVNULL)
    rows = trials(workdir)
    assert [row["trial"] for row in rows] == [str(i) for i in range(12)]
    assert {row["state"] for row in rows} == {"complete"}
    assert len(list(logs.glob("s-*/run.json"))) == 12
    for row in (rows[2], rows[6]):  # at work when the first and the second signal came
        plain = logs / "s" / "trials" / f"{int(row['trial']):03d}-s0.yaml"
        name = f"plain{row['trial']}"
        subprocess.run([*RL, "fit", "--config", str(plain), "--name", name], cwd=workdir, check=True)
        assert Run(logs / name).read()["last10"] == float(row["score"])


@pytest.mark.slow
def test_two_processes_share_a_sqlite_study(workdir: Path) -> None:
    write(workdir, grid={"model.lr": [1e-3, 2e-3, 3e-3, 4e-3]}, storage="sqlite", parallel_jobs=1)
    command = [*RL, "sweep", "--config", "./s.yaml", "--no_plots"]
    both = [subprocess.Popen(command, cwd=workdir, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(timeout=300) for process in both] == [0, 0]
    subprocess.run(command, cwd=workdir, check=True, stdout=subprocess.DEVNULL)
    assert [row["state"] for row in trials(workdir)] == ["complete"] * 4
    assert len(list((workdir / "lightning_logs").glob("s-*/run.json"))) == 4


def wait_for(ready, seconds: float = 900.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def test_mistakes_are_told_before_anything_is_made(rl: Rl, workdir: Path) -> None:
    write(workdir, "wrong", base_config="ppo/cartpol")
    write(workdir, "key", grid={"lr": [1]})
    write(workdir, "stage", grid={"stages.policy.model.lr": [1]})
    write(workdir, "value", grid={"model.lr": ["fast"]})
    write(workdir, "option", grid={"model.lrr": [1.0]})
    for name, text in (
        ("wrong", "ppo/cartpole"),
        ("key", "not a key"),
        ("stage", "has no stages"),
        ("value", "model.lr"),
        ("option", "lr"),
        ("none", "no such"),
    ):
        result = rl("sweep", "--config", f"./{name}.yaml")
        assert result.code == 2 and text in result.err, result
    assert rl("sweep").code == 2 and rl("sweep", "--config", "./wrong.yaml", "--launcher", "x").code == 2
    assert not (workdir / "lightning_logs").exists()


def test_dry_run_shows_and_makes_nothing(rl: Rl, workdir: Path) -> None:
    write(workdir)
    done = rl("sweep", "--config", "./s.yaml", "--dry_run")
    assert done.code == 0 and "nothing was trained" in done.out and "lr: 0.001" in done.out
    assert not (workdir / "lightning_logs").exists()


def test_a_runs_name_is_not_taken(rl: Rl, workdir: Path) -> None:
    write(workdir)
    (workdir / "lightning_logs/s").mkdir(parents=True)
    assert rl("sweep", "--config", "./s.yaml").code == 2


def test_watch_a_run(rl: Rl, workdir: Path) -> None:
    folder = workdir / "lightning_logs/r"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("run: {env_steps: 1000}\n")
    record = {
        "status": "running",
        "pid": os.getpid(),
        "host": os.uname().nodename,
        "best": 9.0,
        "last10": 8.0,
    }
    (folder / "run.json").write_text(json.dumps(record))
    assert "no value of eval/return yet" in rl("watch", "r").out
    (folder / "metrics.csv").write_text(
        "env_step,update,eval/return,time/env_steps_per_s\n100,1,5,10\n500,2,8,50\n600,3,"
    )
    (folder / "alerts.jsonl").write_text('{"alert": "x\\u001b[2J", "text": "t", "time": "now"}\n{half')
    shown = rl("watch", "r", "--once").out
    assert (
        "env_step 500/1000 · 50 steps/s · best 9" in shown
        and "0:00:10 left" in shown
        and "eval/return" in shown
    )
    assert "\x1b" not in shown and "alert x�[2J: t" in shown
    (folder / "run.json").write_text(json.dumps({**record, "pid": 2**22 + 1}))
    assert "r: stopped" in rl("watch", "r").out
    assert rl("watch", "nothing").code == 2 and rl("watch", "r", "--interval", "0").code == 2


def test_tensorboard_stays_on_this_machine(rl: Rl, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[list[str]] = []
    monkeypatch.setattr(
        "rl_lightning.cli.train.tensorboard.subprocess.run",
        lambda command, check: heard.append(command) or subprocess.CompletedProcess(command, 0),
    )
    assert rl("tensorboard").code == 2, "no runs yet"
    for name in ("a", "b"):
        (workdir / "lightning_logs" / name).mkdir(parents=True)
        (workdir / "lightning_logs" / name / "run.json").write_text("{}")
    assert rl("tensorboard", "a", "b", "--port", "7007").code == 0
    (command,) = heard
    assert command[command.index("--host") + 1] == "127.0.0.1" and command[-1] == "7007"
    assert rl("tensorboard", "--host", "0.0.0.0").code == 2
