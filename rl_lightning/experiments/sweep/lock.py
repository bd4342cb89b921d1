"""Who works on what: a lock on the sweep's folder, and owners that can be told dead from alive."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

GRACE = 300.0  # seconds without a sign of life after which another machine's trial counts as lost


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time is inside; a process that dies inside leaves the lock open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def myself() -> dict[str, Any]:
    """This process, so that another one can tell whether it still lives."""
    process = psutil.Process()
    return {
        "host": os.uname().nodename, "pid": process.pid, "born": round(process.create_time(), 1),
        "beat": round(time.time(), 1),
    }  # fmt: skip


def same(owner: Any, other: Any) -> bool:
    keys = ("host", "pid", "born")
    both = isinstance(owner, dict) and isinstance(other, dict)
    return both and all(owner.get(key) == other.get(key) for key in keys)


def lost(owner: Any, grace: float = GRACE) -> bool:
    """Whether the process that owned a trial is gone. Of another machine only its silence is known."""
    if not isinstance(owner, dict):
        return True
    if owner.get("host") != os.uname().nodename:
        return time.time() - float(owner.get("beat") or 0.0) > grace
    try:
        process = psutil.Process(int(owner["pid"]))
        zombie = process.status() == psutil.STATUS_ZOMBIE
        return zombie or abs(process.create_time() - float(owner["born"])) > 1.0
    except (psutil.Error, KeyError, TypeError, ValueError):
        return True
