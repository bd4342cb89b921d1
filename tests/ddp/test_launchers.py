"""`rl` under the launchers: Lightning's own processes, and torchrun's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from resume.support import SAC, write

from rl_lightning import distributed
from rl_lightning.checkpoints.checkpoint_store import CheckpointStore
from rl_lightning.io.checkpoint_files import read_meta
from rl_lightning.io.lock import FileLock

TWO = ("--trainer.devices", "2", "--trainer.strategy", "ddp", "--trainer.accelerator", "cpu")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")


def call(folder: Path, *words: str, before: tuple[str, ...] = (), code: int = 0) -> str:
    hidden = ("LOCAL_RANK", "RANK", "RL_RUN_DIR")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    env |= {"RL_LOGS": str(folder / "logs"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *before, "-m", "rl_lightning.cli", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def newest(run: Path) -> dict:
    return read_meta(CheckpointStore(run / "checkpoints").newest_valid()[0])


def test_lightning_starts_the_second_process(tmp_path: Path) -> None:
    config = write(tmp_path, "sac", SAC)
    call(tmp_path, "fit", "--config", config, "--env_steps", "48", *TWO)
    (run,) = (tmp_path / "logs").iterdir()
    assert newest(run)["ranks"] == 2 and newest(run)["env_step"] == 48
    assert json.loads((run / "run.json").read_text())["status"] == "finished"


@pytest.mark.slow
def test_lightning_resumes_with_two(tmp_path: Path) -> None:
    config = write(tmp_path, "sac", SAC)
    call(tmp_path, "fit", "--config", config, "--name", "two", "--env_steps", "48", *TWO)
    call(tmp_path, "resume", "two", "--env_steps", "96")
    assert newest(tmp_path / "logs" / "two")["env_step"] == 96


@pytest.mark.slow
def test_torchrun_makes_one_run_and_resumes_it(tmp_path: Path) -> None:
    config = write(tmp_path, "sac", SAC)
    call(tmp_path, "fit", "--config", config, "--env_steps", "48", *TWO, before=TORCHRUN)
    (run,) = (tmp_path / "logs").iterdir()
    assert newest(run)["ranks"] == 2 and (run / "config.yaml").is_file()
    call(tmp_path, "resume", run.name, "--env_steps", "96", before=TORCHRUN)
    assert newest(run)["env_step"] == 96


@pytest.mark.slow
def test_torchrun_leaves_a_run_that_another_trains(tmp_path: Path) -> None:
    config = write(tmp_path, "sac", SAC)
    call(tmp_path, "fit", "--config", config, "--name", "held", "--env_steps", "48", *TWO)
    lock = FileLock(tmp_path / "logs" / "held" / ".lock", "taken")
    lock.take()
    failed = 1  # torchrun's own code, whatever its processes end with
    told = call(tmp_path, "resume", "held", "--env_steps", "96", before=TORCHRUN, code=failed)
    assert "run 'held' is being trained by another process" in told
    lock.leave()
    assert newest(lock.path.parent)["env_step"] == 48


@pytest.mark.parametrize(
    "before",
    [pytest.param((), id="lightning", marks=pytest.mark.slow), pytest.param(TORCHRUN, id="torchrun")],
)
def test_a_pipeline_of_two_ranks(before: tuple[str, ...], tmp_path: Path) -> None:
    from runs.pipeline.support import REPLAY, TRAIN, TUNE, ledger, pipeline

    config = pipeline(tmp_path, TRAIN, TUNE, REPLAY)
    call(tmp_path, "fit", "--config", config, *TWO, before=before)
    run = tmp_path / "logs" / "pipe"
    assert [entry["status"] for entry in ledger(run).values()] == ["done"] * 3
    assert all(newest(run / key)["ranks"] == 2 for key in ledger(run))
    told = call(tmp_path, "fit", "--config", config, *TWO, before=before)
    assert told.count("done, skipped") == 3


FATE_ENV = """
import os
import signal

import gymnasium
import numpy as np


class Fate(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        fate = os.environ.get("FATE")
        if self.steps == 14 and fate and os.environ.get("LOCAL_RANK") == "1":
            if fate == "raise":
                raise ValueError("the wheel came off")
            os.kill(os.getpid(), signal.SIGKILL if fate == "kill" else signal.SIGTERM)
        return np.zeros(3, np.float32), 1.0, False, self.steps % 10 == 0, {}


gymnasium.register("Fate-v0", Fate)
"""
FATES = [
    ("raise", 6, "failed", "process 1 ended (exit 6)"),
    ("kill", 6, "failed", "process 1 ended (signal 9)"),
    ("term", 143, "interrupted", "rl resume fate"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fate", "code", "status", "told"), FATES)
def test_the_end_of_one_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fate: str, code: int, status: str, told: str
) -> None:
    """An env that raises in the second process, one that is killed, a SIGTERM that only it gets; then it goes on."""
    (tmp_path / "fate_env_for_tests.py").write_text(FATE_ENV)
    config = write(tmp_path, "sac", SAC)
    words = ["--import", "fate_env_for_tests", "--data.env", "Fate-v0"]
    monkeypatch.setenv("FATE", fate)
    said = call(tmp_path, "fit", "--config", config, "--name", "fate", *words, *TWO, code=code)
    assert told in said and "should not happen" not in said, said
    assert ("the wheel came off" in said) == (fate == "raise")
    record = json.loads((tmp_path / "logs/fate/run.json").read_text())
    assert record["status"] == status
    monkeypatch.delenv("FATE")
    call(tmp_path, "resume", "fate", *words[:2])
    assert json.loads((tmp_path / "logs/fate/run.json").read_text())["status"] == "finished"


def test_a_child_that_dies_is_known_by_rank_and_signal() -> None:
    code = "import time; time.sleep(60)"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    try:
        with distributed.watch(children):
            assert distributed.lost(0.2) is None
            children[1].kill()
            assert str(distributed.lost(5.0)) == "process 2 ended (signal 9)"
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        (
            "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4",
            True,
        ),
        ("mat1 and mat2 must have the same dtype", False),
    ],
)
def test_what_a_lost_peer_sounds_like(text: str, peer: bool) -> None:
    assert distributed.is_lost_peer(RuntimeError(text)) == peer
