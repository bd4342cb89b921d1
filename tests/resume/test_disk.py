"""A full disk: the last good checkpoint stays, and the run says so."""

import contextlib
import errno
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from contracts.harness import assert_same, newest, state
from resume.support import SAC, Rl, write

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, verify
from rl_lightning.errors import DivergedError


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "small"
    place.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_at_the_start(runs: Path, logs: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    done = rl("fit", "--config", str(runs / "sac.yaml"), "--name", "full")
    assert done.code == 4 and "free, a checkpoint needs" in done.err and "0.0 MB" not in done.err
    assert (
        not CheckpointStore(logs / "full" / "checkpoints").checkpoints()
        and not (logs / "full" / "metrics.csv").exists()
    )


def test_a_disk_too_small_for_the_first_checkpoint(
    small: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little more than 1 MB is free: enough to begin, too little for the weights. The disk's own word is told."""
    monkeypatch.setenv("RL_LOGS", str(small))
    (small / "ballast").write_bytes(bytes(900_000))
    wide = ["--model.network", "MLP", "--model.network.hidden_dims", "[1000,1000]"]
    done = rl("fit", "--config", write(small.parent, "sac", SAC), "--name", "full", *wide)
    assert done.code == 4 and "No space left on device" in done.err and str(small) in done.err, done.err
    assert not (small / "full").exists()


def test_the_reason_of_a_crash_is_told_where_its_weights_cannot_be_kept(
    small: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An update fails while the disk has 16 kB left, too few for the weights: exit code and line are the update's."""
    from rl_lightning.algorithms import SAC as Module

    def update(self, batch):
        with (small / "ballast").open("wb", buffering=0) as file:
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            file.truncate(file.tell() - 4 * 4096)
        raise DivergedError("the loss is not finite")

    monkeypatch.setenv("RL_LOGS", str(small))
    monkeypatch.setattr(Module, "update", update)
    wide = ["--model.network", "MLP", "--model.network.hidden_dims", "[100,100]"]
    done = rl("fit", "--config", write(small.parent, "sac", SAC), "--name", "full", *wide)
    assert done.code == 5 and "the loss is not finite" in done.err


def test_a_folder_that_cannot_be_written_is_named(half: Path, rl: Rl, small: Path, monkeypatch) -> None:
    shutil.copytree(half, small / "half")
    monkeypatch.setenv("RL_LOGS", str(small))
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    done = rl("resume", "half", "--env_steps", "96")
    subprocess.run(["mount", "-o", "remount,rw", str(small)], check=True)
    assert done.code == 2 and str(small / "half") in done.err and "Read-only" in done.err, done.err


def test_full_in_the_middle_of_a_checkpoint(
    runs: Path, straight: Path, logs: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, made = torch.save, []

    def save(state, file, *args, **kwargs):
        made.append(1)
        if len(made) > 8:
            file.write(b"half of it")
            raise OSError(errno.ENOSPC, "No space left on device")
        real(state, file, *args, **kwargs)

    monkeypatch.setattr(torch, "save", save)
    done = rl("fit", "--config", str(runs / "sac.yaml"), "--name", "full")
    assert done.code == 4, done.err
    assert "could not be written (No space left on device); the one before it is intact" in done.err
    verify(newest(logs / "full"))
    monkeypatch.undo()
    monkeypatch.setenv("RL_LOGS", str(logs))
    assert rl("resume", "full").code == 0
    assert_same(state(straight, best=True), state(logs / "full", best=True))


def test_a_file_system_that_fills_up(small: Path, rl: Rl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else fills the disk while we train."""
    monkeypatch.setenv("RL_LOGS", str(small))
    config = write(small.parent, "sac", SAC)
    assert rl("fit", "--config", config, "--name", "full", "--env_steps", "48").code == 0
    with (small / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    done = rl("resume", "full", "--env_steps", "96")
    assert done.code == 4 and done.err.count("error:") == 1, done.err
    verify(newest(small / "full"))
    (small / "ballast").unlink()
    assert rl("resume", "full", "--env_steps", "96").code == 0
