"""Locks on files: the end of the process that holds one, however it comes, gives it back."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from rl_lightning.errors import ConfigError


class FileLock:
    """Keeps other processes out, from `take` to `leave`; whoever comes second is refused.

    POSIX gives it to the process alone, not to those it forks. Where a disk knows no locks there is none.

    Args:
        path: The file that is locked; made if it is missing.
        refusal: What the second one is told.
    """

    def __init__(self, path: Path, refusal: str) -> None:
        self.path = path
        self.refusal = refusal
        self.file: IO[Any] | None = None

    def take(self) -> None:
        try:
            import fcntl

            self.file = self.path.open("a")
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no POSIX
            return
        except OSError as error:
            if self.file is not None and error.errno in (errno.EACCES, errno.EAGAIN):
                self.leave()
                raise ConfigError(self.refusal) from None

    def leave(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


def wait_for(file: IO[Any]) -> None:
    """Waits until this open file is ours alone; closing it gives it back."""
    try:
        import fcntl
    except ImportError:  # no POSIX
        return
    fcntl.flock(file, fcntl.LOCK_EX)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is inside; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        wait_for(file)
        yield
