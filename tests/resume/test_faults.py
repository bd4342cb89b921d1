"""Envs that die or cannot be saved."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from resume.support import SAC, Rl, newest, write

from rl_lightning.callbacks.generations import read_file, verify
from rl_lightning.data import OnlineData


def config_with(folder: Path, **data: object) -> str:
    arguments = {**SAC["data"]["init_args"], **data}
    return write(folder, "other", {**SAC, "data": {"class_path": "OnlineData", "init_args": arguments}})


def test_a_killed_worker_is_named(logs: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, turns = OnlineData.turn, []

    def kill_one(self):
        turns.append(1)
        if len(turns) == 6:
            process = self.collector.envs.processes[1]
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        return turn(self)

    monkeypatch.setattr(OnlineData, "turn", kill_one)
    done = rl("fit", "--config", config_with(logs.parent, vectorization="async"), "--name", "killed")
    assert done.code == 6, done.err
    assert "Pendulum-v1: environment worker 1 (pid" in done.err and "SIGKILL" in done.err
    assert verify(newest(logs / "killed"))["env_step"] > 0
    assert json.loads((logs / "killed" / "run.json").read_text())["status"] == "failed"
    monkeypatch.setattr(OnlineData, "turn", turn)
    assert rl("resume", "killed").code == 0


def can_make_lander() -> bool:
    try:
        import Box2D  # noqa: F401
    except ImportError:
        return False
    return True


@pytest.mark.skipif(not can_make_lander(), reason="Box2D is not installed")
def test_an_env_that_cannot_be_saved_begins_anew_and_joins_nothing(logs: Path, rl: Rl) -> None:
    env = {"id": "LunarLander-v3", "kwargs": {"continuous": True}}
    config = config_with(logs.parent, env=env, learning_starts=1000)
    assert rl("fit", "--config", config, "--name", "lander", "--env_steps", "32").code == 0
    assert json.loads((logs / "lander" / "run.json").read_text()).get("exact", True)
    done = rl("resume", "lander", "--env_steps", "64")
    assert done.code == 0 and "2 envs of LunarLander-v3 cannot be saved and began a new episode" in done.out
    assert json.loads((logs / "lander" / "run.json").read_text())["exact"] is False
    replay = read_file(newest(logs / "lander") / "rank-0.pt")["data"]["buffers"]["replay"]
    assert len(replay["cuts"]) == 2, "the last row of each env before the gap ends there"


def test_rows_on_both_sides_of_a_gap_are_never_one_sample() -> None:
    """Three-step rows drawn from a buffer whose second env was cut: none reaches over the cut."""
    import torch
    from contracts.cases import BY_NAME
    from contracts.harness import bare

    made = bare(BY_NAME["sac"].but(data={"learning_starts": 10**6}))
    made.data.next_block()
    buffer = made.data.buffer
    rows = len(buffer)
    for env in range(2):
        buffer.cut(env)
    made.data.next_block()
    batch = buffer.sample(4000, torch.Generator().manual_seed(0), 3, 0.9)
    start = batch.index
    over = (start < rows) & (start + 2 * (batch.n_steps if hasattr(batch, "n_steps") else 3) > rows + 1)
    steps = torch.log(batch.discount[batch.discount > 0]) / torch.log(torch.tensor(0.9))
    assert over.any() and steps.max() <= 3.001
    near = (start >= rows - 2) & (start < rows)
    if near.any():  # the last row before the gap stands alone
        assert torch.all(batch.discount[near] >= 0.9 - 1e-6)


def test_no_process_is_left_behind() -> None:
    children = subprocess.run(["ps", "--ppid", str(os.getpid()), "-o", "stat="], capture_output=True, text=True).stdout
    assert "Z" not in children
