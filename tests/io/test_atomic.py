"""A file is there whole or not at all, and nothing is left beside it."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rl_lightning.io.atomic import atomic_open, atomic_path, sync_folder, write_json, write_text


def test_a_failed_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", "old")
    with pytest.raises(ZeroDivisionError), atomic_open(path, "w") as file:
        file.write("ne")
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), atomic_path(path) as temporary:
        temporary.write_text("new")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a.txt", "old")
    with atomic_open(path, "w", sync=True) as file:
        file.write("new")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]
    sync_folder(tmp_path)


def test_writers_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    path, texts = tmp_path / "a.txt", [str(digit) * 100_000 for digit in range(8)]
    threads = [threading.Thread(target=write_text, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts and list(tmp_path.iterdir()) == [path]


def test_json_refuses_what_it_does_not_know_unless_told_how(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(TypeError):
        write_json(path, {"where": tmp_path})
    assert not list(tmp_path.iterdir())
    write_json(path, {"where": tmp_path, "é": 1}, default=str)
    assert json.loads(path.read_text()) == {"where": str(tmp_path), "é": 1}
