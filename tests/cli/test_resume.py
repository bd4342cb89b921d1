"""`rl resume`: what it refuses leaves the run as it was, what it is told changes nothing else, and groups go on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rl_lightning.runs.engine.group import finish
from rl_lightning.runs.store.run_folder import Run

from .conftest import Rl

HOLD = """
import sys
from pathlib import Path
from rl_lightning.io.lock import FileLock
from rl_lightning.runs.engine.group import finish
from rl_lightning.runs.store.run_folder import Run
lock = FileLock(Path(sys.argv[1]) / ".lock", "taken")
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def run(rl: Rl, workdir: Path) -> Run:
    assert rl("fit", "--config", "cartpole.yaml", "--env_steps", "80", "--name", "tiny").code == 0
    return Run(workdir / "lightning_logs" / "tiny")


def state(run: Run) -> dict[str, bytes]:
    """What a run says of itself; a logger may have opened a file of its own."""
    files = [path for path in run.folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {
        str(path.relative_to(run.folder)): path.read_bytes() for path in files if "events" not in path.name
    }


def test_a_change_that_does_not_fit_leaves_the_run_as_it_was(rl: Rl, run: Run) -> None:
    before = state(run)
    refused = rl("resume", "tiny", "--env_steps", "200", "--data.num_envs", "4")
    assert refused.code == 4 and "4 are wanted" in refused.err
    assert state(run) == before


def test_a_run_keeps_its_size_when_it_is_watched_closely(rl: Rl, run: Run) -> None:
    """--debug makes new runs small; one that goes on was told how large it is."""
    assert rl("resume", "tiny", "--env_steps", "300", "--debug").code == 0
    assert run.read()["env_step"] >= 300
    assert (
        "minibatch_size: 32\n" in run.config_file.read_text()
        and "env_steps: 300" in run.config_file.read_text()
    )


@pytest.mark.parametrize(
    ("flags", "source"),
    [
        (["--resume_mode", "warm_start"], "tiny"),
        (["--ckpt_path", "elsewhere"], "tiny"),
        (["--checkpoint", "best"], "tiny/checkpoints/best.ckpt"),
    ],
)
def test_what_is_not_exact_is_a_new_run(rl: Rl, run: Run, flags: list[str], source: str) -> None:
    refused = rl("resume", "tiny", "--env_steps", "200", *flags)
    command = refused.err.strip().splitlines()[-1].split()
    assert refused.code == 2 and command[:2] == ["rl", "fit"] and command[5].endswith(source)
    assert rl(*command[1:], "--name", "new").code == 0  # what it says can be typed


def test_two_do_not_train_one_run(rl: Rl, run: Run) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        refused = rl("resume", "tiny", "--env_steps", "200")
        assert refused.code == 2 and "is being trained by another process" in refused.err
        other.kill()
        other.wait()
    assert rl("resume", "tiny", "--env_steps", "200").code == 0  # however the other ended


def test_a_group_goes_on_where_seeds_are_missing(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--seeds", "0-1", "--jobs", "2", "--name", "both").code == 0
    logs = workdir / "lightning_logs"
    shutil.rmtree(logs / "both-s1")
    named = rl("test", "both")
    assert named.code == 2 and "'both' is a group of runs; name one of them: both-s0" in named.err
    done = rl("resume", "both")
    assert done.code == 0 and "2 of 2 seeds finished" in done.out, done
    first, second = Run(logs / "both-s0").read(), Run(logs / "both-s1").read()
    assert (first["seed"], second["seed"], second["group"]) == (0, 1, "both")
    assert first["config_hash"] == second["config_hash"]


def test_a_stopped_group_says_which_seeds_never_began(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And promises no picture of what nobody finished."""
    (workdir / "lightning_logs" / "g-s0").mkdir(parents=True)
    Run(workdir / "lightning_logs" / "g-s0").update(status="interrupted", best=3.0, last10=2.0, last10_of=1)
    leave = [sys.executable, "-c", "raise SystemExit(143)"]
    assert finish("g", {0: "g-s0", 1: "g-s1"}, {0: leave, 1: leave}, 1) == 143
    said = capsys.readouterr()
    assert "0 of 2 seeds finished" in said.out and "best evaluation" in said.out and "rl plot" not in said.out
    assert "not finished: seed 0 (exit 143), seed 1 (not begun)" in said.err


def test_runs_that_share_a_label_are_resumed_one_by_one(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--name", "alone", "--group", "lab").code == 0
    refused = rl("resume", "lab")
    assert refused.code == 2 and refused.out == ""
    assert "'lab' does not say which seeds it has; resume its runs: alone" in refused.err


def test_a_finished_run_says_so(rl: Rl, workdir: Path) -> None:
    assert rl("fit", "--config", "cartpole.yaml", "--name", "whole").code == 0
    before = (workdir / "lightning_logs/whole/run.json").read_text()
    result = rl("resume", "whole")
    assert result.code == 0 and "whole is finished: 64 env_steps" in result.out
    assert "rl resume whole --env_steps 128" in result.out
    assert (workdir / "lightning_logs/whole/run.json").read_text() == before
    assert "done: 96 env_steps" in rl("resume", "whole", "--env_steps", "96").out


def test_a_schedule_that_has_ended_is_told_of(rl: Rl, workdir: Path) -> None:
    """It went to the end of the old budget: nothing that comes later undoes that."""
    began = ("fit", "--config", "cartpole.yaml", "--env_steps", "32", "--model.lr_schedule", "Linear")
    assert rl(*began, "--name", "short").code == 0
    longer = rl("resume", "short", "--env_steps", "64")
    assert longer.code == 0 and "note: model.lr_schedule followed the old budget" in longer.err


def test_a_file_that_is_no_checkpoint_is_named(rl: Rl, workdir: Path) -> None:
    (workdir / "checkpoints").mkdir()
    (workdir / "bad.ckpt").write_text("garbage")
    done = rl("fit", "--config", "cartpole.yaml", "--ckpt_path", "bad.ckpt")
    assert done.code == 4 and "error: bad.ckpt is not a checkpoint" in done.err, done.err


def test_other_sizes_than_the_checkpoints_are_refused_in_a_line(rl: Rl, run: Run) -> None:
    before = (run.folder / "run.json").read_text()
    done = rl("resume", run.name, "--model.network.hidden_dims", "[8, 8]", "--env_steps", "200")
    assert done.code == 4 and "its weights do not fit this PPO: size mismatch for" in done.err, done.err
    assert "should not happen" not in done.err and len(done.err.strip().splitlines()) <= 3
    assert (run.folder / "run.json").read_text() == before


def test_a_folder_that_is_no_run_is_named(rl: Rl, workdir: Path) -> None:
    (workdir / "some").mkdir()
    done = rl("play", "./some")
    assert done.code == 2 and "./some is neither a run nor a shared agent" in done.err, done.err
