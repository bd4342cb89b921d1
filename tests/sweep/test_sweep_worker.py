"""Sweeps with a stub in place of `rl`: nothing is lost or doubled, whatever is killed, and by however many workers."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

pytest.importorskip("optuna")

import drive

from rl_lightning.errors import ConfigError
from rl_lightning.sweep.definition import read_definition
from rl_lightning.sweep.study import TrialLedger

DRIVE = [sys.executable, str(Path(drive.__file__))]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RL_LOGS", str(tmp_path / "logs"))
    (tmp_path / "logs").mkdir()
    return tmp_path


def define(**entries) -> Path:
    whole = {
        "base_config": "x",
        "parallel_jobs": 2,
        "storage": "journal",
        **entries,
    }  # SQLite syncs the disk often
    if "grid" not in whole and "space" not in whole:
        whole["grid"] = {"model.lr": [1.0, 2.0, 3.0, 4.0]}
    Path("s.yaml").write_text(yaml.safe_dump(whole))
    return Path("s.yaml")


def sweep(**entries) -> list:
    """Runs a sweep in this process; its rows."""
    said: list[str] = []
    worker, ledger = drive.start(define(**entries), said.append)
    assert worker.run() == 0, said
    return ledger.rows()


def starts() -> list[str]:
    return Path("logs/starts.txt").read_text().split("\n")[:-1]


def check_whole(rows, count: int) -> None:
    """Every trial complete once, and its run has each row once."""
    assert [(row.slot, row.state) for row in rows] == [(i, "complete") for i in range(count)]
    assert len({str(row.params) for row in rows}) == count
    for row in rows:
        for name in row.about["runs"]:
            lines = Path(f"logs/{name}/metrics.csv").read_text().splitlines()[1:]
            steps = [line.split(",")[0] for line in lines]
            assert steps == sorted(set(steps), key=int)


def test_grid_trains_every_point_and_seed():
    rows = sweep(seeds=[0, 1])
    check_whole(rows, 4)
    assert [row.params["model.lr"] for row in rows] == [1.0, 2.0, 3.0, 4.0]
    assert len(starts()) == 8
    mean = sum(2.0 * n for n in (1, 2, 3)) / 3
    assert rows[1].score == pytest.approx((mean + mean + 0.001) / 2)
    assert rows[1].about["scores"] == pytest.approx([mean, mean + 0.001])


@pytest.mark.parametrize("storage", ["journal", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_killed_twice_by_kill_9_and_continued(storage):
    """The sweep's own process dies without a word; its trainings save and end, and are gone on with."""
    define(
        space={"model.lr": {"type": "uniform", "low": 1, "high": 9}},
        trials=6,
        storage=storage,
        sampler={"name": "tpe", "n_startup_trials": 2},
        overrides={"model.rows": 6, "model.pause": 0.05},
    )
    for _ in range(2):
        process = subprocess.Popen([*DRIVE, "s.yaml"], stdout=subprocess.DEVNULL)
        before = len(starts()) if Path("logs/starts.txt").exists() else 0
        wait_for(lambda before=before: Path("logs/starts.txt").exists() and len(starts()) >= before + 2)
        seen = written()
        wait_for(lambda seen=seen: written() > seen)
        process.kill()
        process.wait()
    worker, ledger = drive.start(Path("s.yaml"), lambda text: None)
    assert worker.run() == 0
    check_whole(ledger.rows(), 6)
    assert any(line.endswith(" resume") for line in starts())
    assert len([line for line in starts() if line.endswith(" fit")]) == 6


def written() -> int:
    """How many values all trainings have written so far."""
    return sum(len(path.read_text().splitlines()) - 1 for path in Path("logs").rglob("metrics.csv"))


def wait_for(ready, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def test_a_signal_saves_and_the_same_command_goes_on():
    define(overrides={"model.rows": 30, "model.pause": 0.02})
    process = subprocess.Popen([*DRIVE, "s.yaml"], stdout=subprocess.PIPE, text=True)
    wait_for(lambda: Path("logs/starts.txt").exists() and len(starts()) >= 2)
    wait_for(lambda: written() >= 2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    worker, ledger = drive.start(Path("s.yaml"), lambda text: None)
    assert {row.state for row in ledger.rows()} <= {"waiting", "complete"}, "nothing is left as running"
    assert worker.run() == 0
    check_whole(ledger.rows(), 4)


@pytest.mark.parametrize("storage", ["sqlite", pytest.param("journal", marks=pytest.mark.slow)])
def test_two_processes_on_one_study(storage):
    define(grid={"model.lr": [float(i) for i in range(1, 9)]}, storage=storage)
    workers = [subprocess.Popen([*DRIVE, "s.yaml"], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in workers]
    assert [process.returncode for process in workers] == [0, 0], said
    _, ledger = drive.start(Path("s.yaml"), lambda text: None)
    check_whole(ledger.rows(), 8)
    assert len(ledger.study.trials) == 8 and len(starts()) == len(set(starts())) == 8
    assert all("trial " in text for text in said), "both did something"


def test_a_crash_is_retried_from_where_it_was_and_then_marked():
    rows = sweep(grid={"model.ends": [0, 1], "model.once": [True, False]}, retries=1)
    assert [row.state for row in rows] == ["complete", "complete", "complete", "fail"]
    assert rows[3].about["reason"] == "ended with 1 (exit 1)"
    assert [line for line in starts() if line.startswith("s-002")] == ["s-002-s0 fit", "s-002-s0 resume"]
    check_whole(rows[:3], 3)


def test_divergence_is_pruned_not_retried():
    rows = sweep(grid={"model.ends": [0, 5]}, retries=3)
    assert [row.state for row in rows] == ["complete", "pruned"] and rows[1].about["reason"] == "diverged"
    assert len(starts()) == 2


def test_a_wrong_config_ends_the_sweep_at_once():
    worker, ledger = drive.start(define(overrides={"model.ends": 2}, parallel_jobs=1), lambda text: None)
    with pytest.raises(ConfigError, match="refused"):
        worker.run()
    assert [row.state for row in ledger.rows()] == ["fail", "waiting", "waiting", "waiting"]


def test_median_pruning_by_reported_evaluations():
    rows = sweep(
        grid={"model.lr": [4.0, 5.0, 1.0]}, parallel_jobs=1, pruner={"name": "median", "n_startup_trials": 2},
        overrides={"model.rows": 12, "model.pause": 0.15},
    )  # fmt: skip
    assert [row.state for row in rows] == ["complete", "complete", "pruned"]
    lines = Path("logs/s-002-s0/metrics.csv").read_text().splitlines()
    assert len(lines) < 13, "it was stopped before its end"


def test_constraints_decide_which_is_best():
    from rl_lightning.sweep.outcome import best_row

    rows = sweep(
        grid={"model.lr": [1.0, 2.0], "model.memory": [1.0, 9.0]}, constraints=["time/memory_gb < 4"]
    )
    assert [row.feasible for row in rows] == [True, False, True, False]
    best = best_row(rows, "maximize")
    assert best is not None and best.slot == 2


def test_more_trials_go_on_and_another_space_is_refused():
    space = {"model.lr": {"type": "log_uniform", "low": 1e-3, "high": 1}}
    first = [row.params for row in sweep(space=space, trials=2)]
    more = sweep(space=space, trials=5)
    check_whole(more, 5)
    assert [row.params for row in more[:2]] == first
    with pytest.raises(ConfigError, match="begun with another grid or space"):
        drive.start(define(space={"model.lr": {"type": "uniform", "low": 1, "high": 2}}), lambda text: None)


def test_a_trial_of_a_silent_machine_is_taken_over(monkeypatch):
    """Of another machine only its silence is known."""
    definition = read_definition(yaml.safe_load(define().read_text()), "s")
    ledger = TrialLedger(definition, Path("logs/s"))
    trial = ledger.claim()
    assert trial is not None and trial.slot == 0
    owner = {"host": "elsewhere", "pid": 1, "born": 0.0, "beat": time.time()}
    trial.handle.set_user_attr("owner", owner)
    assert ledger.claim().slot == 1, "it still gives signs of life"
    trial.handle.set_user_attr("owner", {**owner, "beat": time.time() - 1000})
    again = ledger.claim()
    assert again.slot == 0 and again.params == trial.params
    assert ledger.finish(again, "complete", 1.0)
    assert not ledger.finish(trial, "complete", 2.0), "the first one comes too late"
    assert ledger.rows()[0].score == 1.0


def test_folders_that_share_a_database_file_take_turns_at_it():
    define(storage=f"sqlite:///{Path('shared.db').resolve()}")
    definition = read_definition(yaml.safe_load(Path("s.yaml").read_text()), "s")
    one, two = (TrialLedger(definition, Path(f"logs/{name}")) for name in ("one", "two"))
    assert [one.claim().slot, two.claim().slot] == [0, 1] and len(two.study.trials) == 4
    assert Path("shared.db.lock").exists() and not Path("logs/one/.lock").exists()


def test_an_orphan_that_still_saves_is_waited_for():
    """Kill -9 of the sweep, and its training ignores that: the next worker begins once it has ended."""
    define(grid={"model.lr": [1.0]}, overrides={"model.rows": 5, "model.pause": 0.3})
    process = subprocess.Popen([*DRIVE, "s.yaml"], stdout=subprocess.DEVNULL)
    wait_for(lambda: Path("logs/s-000-s0/run.json").exists())
    process.kill()
    process.wait()
    worker, ledger = drive.start(Path("s.yaml"), lambda text: None)
    assert worker.run() == 0
    check_whole(ledger.rows(), 1)
    assert starts()[0] == "s-000-s0 fit" and set(starts()[1:]) <= {"s-000-s0 resume"}


def test_hours_end_the_worker():
    worker, ledger = drive.start(define(overrides={"model.rows": 50}), lambda text: None)
    worker.seconds = 0.3
    assert worker.run() == 0
    assert {row.state for row in ledger.rows()} == {"waiting"}


def test_no_process_is_left_behind():
    before = set(psutil.Process().children())
    sweep()
    assert set(psutil.Process().children()) <= before
