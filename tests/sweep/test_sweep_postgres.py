"""Sweeps on a real PostgreSQL server on loopback: machines without a folder in common."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import yaml

pytest.importorskip("optuna")

import drive
import optuna

from rl_lightning.sweep.definition import SweepDefinition, read_definition
from rl_lightning.sweep.study import TrialLedger
from rl_lightning.sweep.sweep_lock import locked_on_server

DRIVE = [sys.executable, str(Path(drive.__file__))]


def wait_for(ready, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def postgres():
    """A real server on loopback, in a folder of its own."""
    found = shutil.which("initdb") or next(
        iter(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")))), None
    )
    if found is None:
        pytest.skip("PostgreSQL's binaries (initdb) are not installed")
    pytest.importorskip(
        "psycopg", reason="the driver psycopg is not installed: pip install 'psycopg[binary]'"
    )
    tools, data = (
        Path(found).resolve().parent,
        Path(tempfile.mkdtemp(prefix="rl-pg-")),
    )  # short, and not only ours
    user = [] if os.getuid() else ["runuser", "-u", "postgres", "--"]
    if user and subprocess.run([*user, "true"], capture_output=True).returncode:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    if user:
        shutil.chown(data, "postgres")
    subprocess.run(
        [*user, tools / "initdb", "-D", data / "db", "-U", "me", "-A", "trust"],
        check=True,
        capture_output=True,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [*user, tools / "postgres", "-D", data / "db", "-p", str(port), "-c", "listen_addresses=127.0.0.1",
         "-c", "fsync=off", "-k", data], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    ready = [tools / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
    wait_for(lambda: subprocess.run(ready, capture_output=True).returncode == 0)
    yield f"postgresql+psycopg://me@127.0.0.1:{port}/postgres"
    stop = [*user, tools / "pg_ctl", "stop", "-D", data / "db", "-m", "immediate"]
    subprocess.run(stop, check=True, capture_output=True)
    server.wait(timeout=30)
    shutil.rmtree(data, ignore_errors=True)


def defined(storage: str, name: str, trials: int) -> SweepDefinition:
    grid = {"model.lr": [float(i) for i in range(1, trials + 1)]}
    return read_definition({"base_config": "x", "grid": grid, "storage": storage}, name)


def begin(definition: SweepDefinition, folder: str, barrier) -> None:
    barrier.wait()
    TrialLedger(definition, Path(folder))


def test_many_begin_one_study_in_the_same_moment(postgres: str, tmp_path: Path) -> None:
    """None makes a trial that another one has made."""
    optuna.storages.RDBStorage(postgres)  # the tables are there, so that nothing keeps them apart
    fork = multiprocessing.get_context("fork")
    for name in ("first", "second"):
        definition, barrier = defined(postgres, name, 8), fork.Barrier(4)
        workers = [
            fork.Process(target=begin, args=(definition, str(tmp_path / f"{name}{i}"), barrier))
            for i in range(4)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0] * 4
        study = optuna.load_study(study_name=name, storage=postgres)
        assert sorted(trial.user_attrs["slot"] for trial in study.trials) == list(range(8))


def test_a_dead_machines_trial_is_taken_over_once(postgres: str, tmp_path: Path) -> None:
    definition = defined(postgres, "taken", 2)
    one, two = (TrialLedger(definition, tmp_path / name) for name in ("one", "two"))
    trial = one.claim()
    assert trial is not None and trial.slot == 0
    trial.handle.set_user_attr("owner", {"host": "elsewhere", "pid": 1, "born": 0.0, "beat": 0.0})
    again, other = two.claim(), one.claim()
    assert again is not None and other is not None
    assert [again.slot, other.slot] == [0, 1] and one.claim() is None
    assert again.params == trial.params


def test_the_lock_ends_with_its_process_and_leaves_nothing(postgres: str, tmp_path: Path) -> None:
    ledger = TrialLedger(defined(postgres, "lock", 1), tmp_path / "here")

    def hold(storage: str, connection) -> None:
        with locked_on_server(optuna.storages.RDBStorage(storage).engine, "lock"):
            connection.send("inside")
            time.sleep(60)

    fork = multiprocessing.get_context("fork")
    here, there = fork.Pipe()
    holder = fork.Process(target=hold, args=(postgres, there))
    holder.start()
    assert here.poll(30)
    claimed: list = []
    claiming = threading.Thread(target=lambda: claimed.append(ledger.claim()))
    claiming.start()
    claiming.join(0.5)
    assert not claimed, "somebody else is inside"
    holder.kill()
    holder.join()
    claiming.join(30)
    assert claimed and claimed[0].slot == 0
    assert "lock (lock)" not in optuna.get_all_study_names(postgres)


def test_two_workers_on_a_postgresql_study(postgres: str, tmp_path: Path) -> None:
    """Without a folder in common, as two machines have none: the server alone keeps them apart."""
    entries = {"base_config": "x", "grid": {"model.lr": [float(i) for i in range(1, 9)]}, "storage": postgres}
    (tmp_path / "pg.yaml").write_text(yaml.safe_dump({**entries, "parallel_jobs": 2}))
    both = []
    for machine in ("one", "two"):
        (tmp_path / machine).mkdir()
        environment = {**os.environ, "RL_LOGS": str(tmp_path / machine)}
        both.append(subprocess.Popen([*DRIVE, "pg.yaml"], cwd=tmp_path, env=environment))
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    starts = [
        line for m in ("one", "two") if (tmp_path / m / "starts.txt").exists()
        for line in (tmp_path / m / "starts.txt").read_text().splitlines()
    ]  # fmt: skip
    assert len(starts) == len(set(starts)) == 8
    states = [trial.state.name for trial in optuna.load_study(study_name="pg", storage=postgres).trials]
    assert states == ["COMPLETE"] * 8
