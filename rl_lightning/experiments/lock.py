"""One process trains a run: a lock that the end of the process, however it comes, gives back."""

from __future__ import annotations

import errno
from typing import IO, Any

from rl_lightning.errors import ConfigError
from rl_lightning.experiments.runs import Run


class Lock:
    """Keeps others from training a run, from `take` to `leave`.

    POSIX gives it to the process alone, not to those it forks. Where a disk knows no locks there is none, and the
    process number in run.json is all that others see.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.file: IO[Any] | None = None

    def take(self) -> None:
        try:
            import fcntl

            self.file = (self.run.folder / ".lock").open("a")
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no POSIX
            return
        except OSError as error:
            if self.file is not None and error.errno in (errno.EACCES, errno.EAGAIN):
                self.leave()
                raise ConfigError(f"run '{self.run.name}' is being trained by another process") from None

    def leave(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None
