"""`rl` under the launchers: Lightning's own processes, and torchrun's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from resume.support import SAC, write

from rl_lightning.callbacks.generations import Generations, read_meta
from rl_lightning.experiments.lock import Lock
from rl_lightning.experiments.runs import Run

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
    return read_meta(Generations(run / "checkpoints").newest_whole()[0])


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
    lock = Lock(Run(tmp_path / "logs" / "held"))
    lock.take()
    failed = 1  # torchrun's own code, whatever its processes end with
    told = call(tmp_path, "resume", "held", "--env_steps", "96", before=TORCHRUN, code=failed)
    assert "run 'held' is being trained by another process" in told
    lock.leave()
    assert newest(lock.run.folder)["env_step"] == 48


@pytest.mark.parametrize(
    "before",
    [pytest.param((), id="lightning", marks=pytest.mark.slow), pytest.param(TORCHRUN, id="torchrun")],
)
def test_a_pipeline_of_two_ranks(before: tuple[str, ...], tmp_path: Path) -> None:
    from pipeline.support import REPLAY, TRAIN, TUNE, ledger, pipeline

    config = pipeline(tmp_path, TRAIN, TUNE, REPLAY)
    call(tmp_path, "fit", "--config", config, *TWO, before=before)
    run = tmp_path / "logs" / "pipe"
    assert [entry["status"] for entry in ledger(run).values()] == ["done"] * 3
    assert all(newest(run / key)["ranks"] == 2 for key in ledger(run))
    told = call(tmp_path, "fit", "--config", config, *TWO, before=before)
    assert told.count("done, skipped") == 3
