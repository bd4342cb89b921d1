"""Ctrl-C and SIGTERM: saved at the end of the block or abandoned in its middle, and the end is the same."""

import contextlib
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.harness import assert_same, newest, state
from resume.support import Rl, fork, wait

from rl_lightning import stop_request
from rl_lightning.algorithms import SAC as Module
from rl_lightning.io.checkpoint_files import read_meta


@pytest.fixture
def config(runs: Path) -> str:
    return str(runs / "sac.yaml")


def send_at_update(
    number: int, *signals: int, patience: float | None = None, seconds: float = 0.0
) -> Callable[[], None]:
    """Changes a child: at one of its updates it gets signals, and its updates take longer."""

    def change() -> None:
        rule, made = Module.update, []

        def update(self, batch):
            made.append(1)
            if len(made) == number:
                for sent in signals:
                    os.kill(os.getpid(), sent)
                    time.sleep(0.01)
            if len(made) >= number:
                time.sleep(seconds)
            return rule(self, batch)

        Module.update = update
        if patience is not None:
            stop_request.PATIENCE = patience

    return change


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), pytest.param(signal.SIGUSR1, 143, marks=pytest.mark.slow)],
)
def test_the_block_ends_and_is_saved(
    number: int, code: int, config: str, logs: Path, straight: Path, rl: Rl
) -> None:
    log = logs.parent / "log.txt"
    pid = fork(["fit", "--config", config, "--name", "stopped"], log, send_at_update(10, number))
    assert wait(pid) == code, log.read_text()
    assert (
        "rl resume stopped" in log.read_text()
        and '"interrupted"' in (logs / "stopped" / "run.json").read_text()
    )
    assert read_meta(newest(logs / "stopped"))["update"] == 12, "the block of the tenth update, and no more"
    assert rl("resume", "stopped").code == 0
    assert_same(state(straight, best=True), state(logs / "stopped", best=True))


def test_a_block_that_cannot_end_in_time_is_abandoned(
    config: str, logs: Path, straight: Path, rl: Rl
) -> None:
    log = logs.parent / "log.txt"
    change = send_at_update(10, signal.SIGTERM, patience=0.05, seconds=0.1)
    began = time.monotonic()
    assert wait(fork(["fit", "--config", config, "--name", "stopped"], log, change)) == 143, log.read_text()
    assert time.monotonic() - began < 30
    assert read_meta(newest(logs / "stopped"))["update"] < 10, "half a block was saved"
    assert rl("resume", "stopped").code == 0
    assert_same(state(straight, best=True), state(logs / "stopped", best=True))


def test_a_second_ctrl_c_stops_at_once(config: str, logs: Path, straight: Path, rl: Rl) -> None:
    log = logs.parent / "log.txt"
    change = send_at_update(10, signal.SIGINT, signal.SIGINT, seconds=60.0)
    assert wait(fork(["fit", "--config", config, "--name", "stopped"], log, change), 40) == 130, (
        log.read_text()
    )
    assert rl("resume", "stopped").code == 0
    assert_same(state(straight, best=True), state(logs / "stopped", best=True))


def block_at_update(number: int, wait_there: Callable[[], None], *signals: int) -> Callable[[], None]:
    """Changes a child: at one of its updates it gets signals and then waits for something that does not come."""

    def change() -> None:
        rule, made = Module.update, []

        def update(self, batch):
            made.append(1)
            if len(made) == number:
                for sent in signals:
                    os.kill(os.getpid(), sent)
                    time.sleep(0.01)
                wait_there()
            return rule(self, batch)

        Module.update = update
        stop_request.PATIENCE = stop_request.GRACE = 0.1
        stop_request.LAST = 0.5

    return change


def sleep_and_swallow() -> None:
    """As an env might that catches whatever happens."""
    for _ in range(1000):
        with contextlib.suppress(Exception):
            time.sleep(60.0)


def lock_twice() -> None:
    """C code that no signal brings back."""
    libc, mutex = ctypes.CDLL(None), ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


@pytest.mark.parametrize("wait_there", [sleep_and_swallow, lock_twice])
def test_a_step_that_blocks_is_left(
    wait_there: Callable[[], None], config: str, logs: Path, straight: Path, rl: Rl
) -> None:
    """The record says where the checkpoint is, not how far the abandoned block had come."""
    log = logs.parent / "log.txt"
    change = block_at_update(10, wait_there, signal.SIGTERM)
    assert wait(fork(["fit", "--config", config, "--name", "stopped"], log, change), 40) == 143, (
        log.read_text()
    )
    record, meta = (
        json.loads((logs / "stopped" / "run.json").read_text()),
        read_meta(newest(logs / "stopped")),
    )
    assert record["status"] == "interrupted" and meta["update"] < 10
    assert {key: record[key] for key in ("env_step", "update")} == {
        key: meta[key] for key in ("env_step", "update")
    }
    assert rl("resume", "stopped").code == 0
    assert_same(state(straight, best=True), state(logs / "stopped", best=True))


def test_a_second_sigterm_ends_with_its_own_code(config: str, logs: Path) -> None:
    log = logs.parent / "log.txt"
    change = block_at_update(10, sleep_and_swallow, signal.SIGTERM, signal.SIGTERM)
    assert wait(fork(["fit", "--config", config, "--name", "stopped"], log, change), 40) == 143, (
        log.read_text()
    )
    meta = read_meta(newest(logs / "stopped"))
    assert json.loads((logs / "stopped" / "run.json").read_text())["update"] == meta["update"]


def test_what_is_being_saved_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stop comes due in the middle of a save, and waits."""
    monkeypatch.setattr(stop_request, "PATIENCE", 0.05)
    monkeypatch.setattr(stop_request, "GRACE", 0.0)
    got: list[bool] = []

    def handler(number: int, frame: object) -> None:
        got.append(stop_request.late())

    previous = signal.signal(signal.SIGINT, handler)
    try:
        with stop_request.shield():
            stop_request.request_stop(signal.SIGINT)
            time.sleep(0.3)
            assert got == []
        end = time.monotonic() + 5
        while not got and time.monotonic() < end:
            time.sleep(0.01)
        assert got == [True]
    finally:
        stop_request.clear()
        signal.signal(signal.SIGINT, previous)
