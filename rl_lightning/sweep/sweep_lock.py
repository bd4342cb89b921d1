"""Who works on what: a lock on the sweep's server, and owners that can be told dead from alive."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import psutil

GRACE = 300.0  # seconds without a sign of life after which another machine's trial counts as lost


@contextlib.contextmanager
def locked_on_server(engine: Any, name: str) -> Iterator[None]:
    """The same for all machines that reach a database server.

    A row that is inserted and never committed: whoever inserts its twin waits until this transaction ends, and the
    server ends that of a process that dies or falls silent.

    Args:
        engine: SQLAlchemy's, with a pool of two connections or more: what happens inside needs another one.
        name: Of the study that is locked.
    """
    from sqlalchemy import MetaData, Table, text

    studies = Table(
        "studies", MetaData(), autoload_with=engine
    )  # names are unique there, and it refers to none
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = '{int(GRACE)}s'"))
        connection.execute(studies.insert().values(study_name=f"{name} (lock)"))
        yield  # closing the connection rolls back


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
