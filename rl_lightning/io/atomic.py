"""Files that appear whole or not at all: written beside their place, then renamed over it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from rl_lightning.errors import DataError

_serial = itertools.count()  # threads of one process write beside each other


@contextlib.contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; renamed over it at the end, removed if that is not reached."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}-{next(_serial)}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_open(
    path: Path, mode: str = "wb", sync: bool = False, newline: str | None = None, errors: str | None = None
) -> Iterator[IO[Any]]:
    """An open file that takes its place when it is closed.

    Args:
        path: Its place.
        mode: wb, or w for text in UTF-8.
        sync: Flush it to the disk before it is renamed: a power cut leaves the old file or the new one.
        newline: As `open` takes it.
        errors: As `open` takes it.
    """
    encoding = None if "b" in mode else "utf-8"
    with (
        atomic_path(path) as temporary,
        open(temporary, mode, encoding=encoding, newline=newline, errors=errors) as file,
    ):
        yield file
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_text(path: Path, text: str, errors: str | None = None) -> Path:
    with atomic_open(path, "w", errors=errors) as file:
        file.write(text)
    return path


def write_json(path: Path, value: Any, default: Callable[[Any], Any] | None = None) -> Path:
    """Flushed to the disk. What JSON does not know is refused, or written as `default` makes it."""
    with atomic_open(path, "w", sync=True) as file:
        json.dump(value, file, indent=2, default=default)
    return path


@contextlib.contextmanager
def file_of_user(path: Path) -> Iterator[None]:
    """Inside, a file is written where the user named it: its folder is made, and what the disk refuses is told."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror or error})") from None


def sync_folder(folder: Path) -> None:
    """Flushes names to the disk: until then a power cut can undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
