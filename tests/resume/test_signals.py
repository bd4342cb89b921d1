"""Ctrl-C and SIGTERM: saved at the end of the block or abandoned in its middle, and the end is the same."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.harness import assert_same, newest, state
from resume.support import Rl, fork, wait

from rl_lightning import interrupt
from rl_lightning.algorithms import SAC as Module
from rl_lightning.callbacks.generations import read_meta


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
            interrupt.PATIENCE = patience

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
