"""Files that are damaged, missing or hostile: refused in a line, never run, never guessed at."""

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from contracts.harness import assert_same, newest, state
from resume.support import Rl, copy_run

from rl_lightning.checkpoints.checkpoint_store import CheckpointStore, check_plain, checksum, write_file
from rl_lightning.errors import ResumeError
from rl_lightning.io.checkpoint_files import read_file

TO_THE_END = ("--env_steps", "96")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def odd(path: Path) -> None:
    """Json, but no description."""
    path.write_text(json.dumps({"format": 1, "files": {"model.ckpt": 3}}))


@pytest.fixture
def run(half: Path, logs: Path) -> Path:
    return copy_run(half, logs, "half")


DAMAGES = [
    ("model.ckpt", truncate),
    ("model.ckpt", flip),
    ("rank-0.pt", flip),
    ("rank-0.pt", Path.unlink),
    ("meta.json", truncate),
    ("meta.json", odd),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES, ids=[f"{name}-{how.__name__}" for name, how in DAMAGES])
def test_the_generation_before_is_used_and_told_of(
    name: str, damage: Callable[[Path], None], run: Path, straight: Path, rl: Rl
) -> None:
    _, newer = CheckpointStore(run / "checkpoints").checkpoints()
    damage(newer / name)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 0, done.err
    assert "note: passed over" in done.err and newer.name in done.err
    assert_same(state(straight), state(run))


@pytest.mark.parametrize("name", ["model.ckpt", "rank-0.pt", "meta.json"])
def test_without_a_whole_generation_nothing_starts(name: str, run: Path, rl: Rl) -> None:
    for generation in CheckpointStore(run / "checkpoints").checkpoints():
        truncate(generation / name)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and "no checkpoint to resume from" in done.err and name in done.err


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_a_damaged_replay_segment(damage: Callable[[Path], None], run: Path, rl: Rl) -> None:
    """The oldest rows belong to every generation: there is nothing to fall back to."""
    first = read_file(newest(run) / "rank-0.pt")["data"]["buffers"]["replay"]["segments"][0]["file"]
    damage(run / "checkpoints" / "replay" / "rank-0" / first)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and first in done.err and done.err.count("error:") == 1


@pytest.mark.parametrize("damage", [truncate, flip, Path.unlink])
def test_a_damaged_segment_of_the_newest_generation_alone(
    damage: Callable[[Path], None], run: Path, straight: Path, rl: Rl
) -> None:
    """The rows of the generation before are whole: it is gone on with, and that is told."""
    older, newer = CheckpointStore(run / "checkpoints").checkpoints()
    names = [set(json.loads((folder / "meta.json").read_text())["segments"]) for folder in (older, newer)]
    alone = min(names[1] - names[0])
    damage(run / "checkpoints" / "replay" / alone)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 0, done.err
    assert "note: passed over" in done.err and alone in done.err
    assert_same(state(straight), state(run))


def test_where_no_rows_are_whole_the_line_that_works_is_told(run: Path, rl: Rl) -> None:
    for segment in (run / "checkpoints" / "replay" / "rank-0").iterdir():
        flip(segment)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and "replay segment is damaged" in done.err
    line = done.err.strip().splitlines()[-1].split()
    assert line[:2] == ["rl", "fit"] and "--ckpt_path" in line
    assert rl(*line[1:], "--name", "again", "--env_steps", "40").code == 0


def redescribe(generation: Path, change: Callable[[dict[str, Any]], None] = lambda meta: None) -> None:
    """Makes meta.json fit the files again, as one would who wants to do harm."""
    path = generation / "meta.json"
    meta = json.loads(path.read_text())
    for name in meta["files"]:
        file = generation / name
        meta["files"][name] = {"size": file.stat().st_size, "sha256": checksum(file)}
    change(meta)
    path.write_text(json.dumps(meta))


class Hostile:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("form", ["torch", "pickle"])
@pytest.mark.parametrize("name", ["model.ckpt", "rank-0.pt"])
def test_a_hostile_file_is_not_run(name: str, form: str, run: Path, rl: Rl) -> None:
    marker = run.parent / "marker"
    for generation in CheckpointStore(run / "checkpoints").checkpoints():
        if form == "torch":
            torch.save({"state_dict": Hostile(marker)}, generation / name)
        else:
            (generation / name).write_bytes(pickle.dumps(Hostile(marker)))
        redescribe(generation)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and "not a checkpoint that can be loaded safely" in done.err
    assert not marker.exists()
    assert rl("test", "half", "--checkpoint", "last").code in (0, 4) and not marker.exists()


CLIMBS: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("files", lambda meta: meta["files"].update({"../x": {"size": 1, "sha256": ""}})),
    ("segments", lambda meta: meta["segments"].append("../../x")),
    ("absolute", lambda meta: meta["segments"].append("/etc/hostname")),
]


@pytest.mark.parametrize("change", [change for _, change in CLIMBS], ids=[name for name, _ in CLIMBS])
def test_a_path_that_climbs_out_is_refused(
    change: Callable[[dict[str, Any]], None], run: Path, rl: Rl
) -> None:
    for generation in CheckpointStore(run / "checkpoints").checkpoints():
        redescribe(generation, change)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and "which lies outside" in done.err


def test_a_segment_name_that_climbs_out_is_refused(run: Path, rl: Rl) -> None:
    for generation in CheckpointStore(run / "checkpoints").checkpoints():
        own = read_file(generation / "rank-0.pt")
        own["data"]["buffers"]["replay"]["segments"][0]["file"] = "../../../../x.safetensors"
        write_file(own, generation / "rank-0.pt")
        redescribe(generation)
    done = rl("resume", "half", *TO_THE_END)
    assert done.code == 4 and "is not a replay segment of this run" in done.err


NOT_PLAIN = [
    ({"a": {"b": [1, Path("x")]}}, r"state\.a\.b\[1\] is a PosixPath"),
    ({"a": __import__("numpy").zeros(2)}, r"state\.a is a ndarray"),
    ({"a": (1, __import__("collections").deque())}, r"state\.a\[1\] is a deque"),
    ({Path("k"): 1}, r"key PosixPath"),
]


@pytest.mark.parametrize(("state", "message"), NOT_PLAIN, ids=[message for _, message in NOT_PLAIN])
def test_what_could_not_be_loaded_is_not_saved(state: Any, message: str) -> None:
    with pytest.raises(ResumeError, match=message):
        check_plain(state)


def test_a_module_that_saves_such_a_thing_is_told_where(runs: Path, logs: Path, rl: Rl, monkeypatch) -> None:
    from rl_lightning.algorithms import SAC

    monkeypatch.setattr(
        SAC, "on_save_checkpoint", lambda self, state: state.update(mine=[Path("x")]), raising=False
    )
    done = rl("fit", "--config", str(runs / "sac.yaml"), "--name", "odd")
    assert done.code == 4 and "model.ckpt.mine[0] is a PosixPath" in done.err
    assert not CheckpointStore(logs / "odd" / "checkpoints").checkpoints()
