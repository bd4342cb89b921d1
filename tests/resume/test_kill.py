"""kill -9 at random moments: nothing on disk is ever unreadable, and the end is that of a run left alone."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
from contracts.harness import assert_same, metrics, newest, state
from resume.support import SAC, fork, serial, wait, write

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, verify

INTERVAL = 8  # env steps between saves: one block


def kill_while_training(words: list[str], run: Path, log: Path, dice: random.Random) -> bool:
    """Kills the child some saves after its first; False if it was done before."""
    pid = fork(words, log)
    target, began = serial(run) + 1 + dice.randrange(5), time.monotonic()
    while serial(run) < target:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert status == 0, log.read_text()
            return False
        assert time.monotonic() - began < 120, log.read_text()
        time.sleep(0.0005)
    time.sleep(dice.random() * 0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def check_disk(run: Path) -> None:
    """Every generation is whole, and hardly anything was lost."""
    found = CheckpointStore(run / "checkpoints").checkpoints()
    assert found
    rows = metrics(run)
    done = int(float(rows[-1]["env_step"])) if rows else 0
    assert done - verify(found[-1])["env_step"] <= INTERVAL
    for generation in found:
        verify(generation)


@pytest.mark.parametrize("kills", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments(kills: int, logs: Path) -> None:
    steps = 8 * (kills * 6 + 4)
    run = {**SAC["run"], "env_steps": steps, "save_every": INTERVAL, "eval_every": 80}
    config = write(logs.parent, "sac", {**SAC, "run": run})
    log = logs.parent / "log.txt"
    assert wait(fork(["fit", "--config", config, "--name", "straight"], log)) == 0, log.read_text()

    dice, done = random.Random(kills), 0
    words = ["fit", "--config", config, "--name", "killed"]
    while done < kills and kill_while_training(words, logs / "killed", log, dice):
        done += 1
        check_disk(logs / "killed")
        words = ["resume", "killed"]
    assert done == kills, "the run was over too soon"
    assert wait(fork(["resume", "killed"], log)) == 0, log.read_text()
    assert_same(state(logs / "straight", best=True), state(logs / "killed", best=True))
    assert not list((logs / "killed" / "checkpoints").glob(".*")), "something half written was left"


def test_killed_between_the_last_checkpoint_and_the_closing_evaluation(logs: Path) -> None:
    """The run is at its end, but has not said so yet: nothing more is trained, only said."""
    config = write(logs.parent, "sac", {**SAC, "run": {**SAC["run"], "env_steps": 40}})
    log = logs.parent / "log.txt"
    assert wait(fork(["fit", "--config", config, "--name", "straight"], log)) == 0, log.read_text()

    def die_when_closing() -> None:
        from rl_lightning.callbacks.final_metrics import FinalMetrics

        FinalMetrics._emit = lambda self, trainer, module: os.kill(os.getpid(), signal.SIGKILL)

    killed = fork(["fit", "--config", config, "--name", "killed"], log, die_when_closing)
    assert wait(killed) == -signal.SIGKILL
    assert verify(newest(logs / "killed"))["env_step"] == 40
    assert wait(fork(["resume", "killed"], log)) == 0, log.read_text()
    assert_same(state(logs / "straight", best=True), state(logs / "killed", best=True))


def test_resuming_what_is_finished_changes_nothing(logs: Path, half: Path, rl) -> None:
    from resume.support import copy_run

    run = copy_run(half, logs, "half")
    before = state(run, best=True)
    assert rl("resume", "half").code == 0
    assert_same(before, state(run, best=True))
