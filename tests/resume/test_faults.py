"""Envs that die or cannot be saved."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from contracts.case import env
from contracts.cases import BY_NAME
from contracts.harness import bare, newest
from resume.support import SAC, Rl, write

from rl_lightning.checkpoints.checkpoint_store import verify
from rl_lightning.datamodules import OnlineData
from rl_lightning.io.checkpoint_files import read_file


def config_with(folder: Path, **data: object) -> str:
    arguments = {**SAC["data"]["init_args"], **data}
    return write(folder, "other", {**SAC, "data": {"class_path": "OnlineData", "init_args": arguments}})


def test_a_killed_worker_is_named(logs: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, turns = OnlineData.batches, []

    def kill_one(self):
        turns.append(1)
        if len(turns) == 6:
            process = self.collector.envs.processes[1]
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        return batches(self)

    monkeypatch.setattr(OnlineData, "batches", kill_one)
    done = rl("fit", "--config", config_with(logs.parent, vectorization="async"), "--name", "killed")
    assert done.code == 6, done.err
    assert "Pendulum-v1: environment worker 1 (pid" in done.err and "SIGKILL" in done.err
    assert verify(newest(logs / "killed"))["env_step"] > 0
    assert json.loads((logs / "killed" / "run.json").read_text())["status"] == "failed"
    monkeypatch.setattr(OnlineData, "batches", batches)
    assert rl("resume", "killed").code == 0


def can_make_lander() -> bool:
    try:
        import Box2D  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.skipif(not can_make_lander(), reason="Box2D is not installed")
def test_an_env_that_cannot_be_saved_begins_anew_and_joins_nothing(logs: Path, rl: Rl) -> None:
    lander = {"id": "LunarLander-v3", "kwargs": {"continuous": True}}
    config = config_with(logs.parent, env=lander)
    assert rl("fit", "--config", config, "--name", "lander", "--env_steps", "32").code == 0
    assert json.loads((logs / "lander" / "run.json").read_text()).get("exact", True)
    done = rl("resume", "lander", "--env_steps", "64")
    assert done.code == 0 and "2 envs of LunarLander-v3 cannot be saved and began a new episode" in done.out
    assert json.loads((logs / "lander" / "run.json").read_text())["exact"] is False
    replay = read_file(newest(logs / "lander") / "rank-0.pt")["data"]["buffers"]["replay"]
    assert len(replay["cuts"]) == 2, "the last row of each env before the gap ends there"


def test_rows_on_both_sides_of_a_gap_are_never_one_sample() -> None:
    long = BY_NAME["sac"].but(data={"env": env("tests/Target-v0", length=1000)})
    made = bare(long)
    list(made.data.next_block())
    buffer, rows = made.data.buffer, len(made.data.buffer)
    for number in range(2):
        buffer.end_episode(number)
    list(made.data.next_block())
    batch = buffer.store.gather(
        torch.arange(rows - 6, rows + 2), 3, 0.5
    )  # two envs: rows of one are two apart
    assert batch.discount.tolist() == [0.125, 0.125, 0.25, 0.25, 0.5, 0.5, 0.125, 0.125]
    assert not batch.terminated.any(), "a gap is no end of the world: values are still bootstrapped"
