"""Workers by submitit: refused where there is no cluster, and really started by its local one."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("submitit")

from rl_lightning.errors import ConfigError
from rl_lightning.sweep.launcher import ClusterWorker, submit, user_options


def test_no_cluster_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="no SLURM here"):
        submit(["x"], "s", tmp_path, 1, {})
    with pytest.raises(ConfigError, match="one of slurm, local"):
        submit(["x"], "s", tmp_path, 1, {"cluster": "moon"})
    with pytest.raises(ConfigError, match="submitit"):
        submit(["x"], "s", tmp_path, 1, {"cluster": "local", "no_such_option": 3})


def test_local_workers_run_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    code = "import os, pathlib; pathlib.Path(f'done-{os.getpid()}').touch()"
    ids = submit([sys.executable, "-c", code], "s", tmp_path, 2, {"cluster": "local", "timeout_min": 1})
    assert len(ids) == 2
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("done-*"))) < 2:
        assert time.monotonic() < end, [path.read_text() for path in tmp_path.glob("submitit/*.err")]
        time.sleep(0.05)


def test_a_worker_that_is_stopped_is_queued_again(tmp_path: Path):
    worker = ClusterWorker([sys.executable, "-c", "raise SystemExit(3)"], str(tmp_path))
    assert worker.checkpoint().function is worker
    with pytest.raises(Exception, match="exit 3"):
        worker()


def test_what_runs_commands_comes_from_the_user(monkeypatch: pytest.MonkeyPatch):
    """By the command line, or by the environment below it; a list is not a mapping."""
    monkeypatch.setenv("RL_LAUNCHER_OPTIONS", "{slurm_setup: [a], slurm_comment: b}")
    options = user_options("{slurm_setup: [module load cuda]}")
    assert options == {"slurm_setup": ["module load cuda"], "slurm_comment": "b"}
    with pytest.raises(ConfigError, match="takes a mapping"):
        user_options("[a]")
