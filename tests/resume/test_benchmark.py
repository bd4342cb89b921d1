"""benchmarks/resume.py: its trials run, and what they say of us holds. Peers are never asked here."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from resume.support import wait

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.setenv("RL_RESUME_SIZE", "quick")
    return importlib.import_module("resume_trials")


def ours(trials: ModuleType, place: Path) -> Any:
    """Us, each task in a fork of this process, which need not import anything."""
    worker = importlib.import_module("resume_ours")

    class Forked(trials.Contender):  # type: ignore[misc,name-defined]
        def call(self, task: str, rule: str, folder: Path, last: object, **env: str) -> Any:
            folder.mkdir(parents=True, exist_ok=True)
            log = place / f"{task}.log"
            if not (pid := os.fork()):
                code = 99
                try:
                    sys.stdout = sys.stderr = log.open("w", buffering=1)
                    code = getattr(worker, task)(rule, folder, str(last))
                finally:
                    os._exit(code)
            return trials.Result(wait(pid), log.read_text())

    return Forked("ours", sys.executable, "resume_ours.py", place, 1)


def test_a_hostile_checkpoint_runs_nothing(trials: ModuleType, tmp_path: Path) -> None:
    answer = trials.hostile(ours(trials, tmp_path))
    assert answer.startswith("its code did not run; exit 4"), answer


def test_differences_are_told_by_name_and_size(trials: ModuleType) -> None:
    a = {
        "steps": np.array(5),
        "updates": np.array(3),
        "weights/w": np.zeros(2),
        "env/obs": np.array([np.nan]),
    }
    assert trials.compare(a, dict(a)) == "equal"
    b = a | {"updates": np.array(2), "weights/w": np.array([0.0, 0.25]), "metrics/5/loss": np.array("1.0")}
    assert trials.compare(a, b) == "differs: updates 3 and 2, weights by 0.25, metrics"
    assert (
        trials.compare(a, {key: a[key] for key in ("steps", "updates", "env/obs")})
        == "differs: weights by inf"
    )


@pytest.mark.slow
def test_the_script_runs_and_we_end_equal_each_time(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "resume.py"), "--quick", "--contender", "ours"]
    done = subprocess.run(command, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "differs" not in done.stdout and "could not be tried" not in done.stdout, done.stdout
    assert "PPO equal; SAC equal" in done.stdout and "equal 1 of 1" in done.stdout
    assert "exit 143, saved; resumed: equal" in done.stdout and "its code did not run" in done.stdout
