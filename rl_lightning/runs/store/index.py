"""What is known of every run, kept in one file below the logs that can be deleted at any time.

A row is used while the file it was read from has the same inode, size and time; everything else is read again. Two
processes may write at once: SQLite keeps them apart, and a row that comes out too old is found stale by the next
reader. Where the file cannot be written or is damaged, the run folders alone give the same answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl_lightning.runs.store.flat_settings import read_settings
from rl_lightning.runs.store.metrics_file import newest
from rl_lightning.runs.store.run_folder import RECORD, Run, alive, logs_root

FILE = ".index.sqlite"
VERSION = 1
PARTS = ("record", "config", "metrics")
OUTCOME = ("env", "data", "seed", "env_step", "update", "best", "best_at", "last10", "last10_of")
_TABLE = "CREATE TABLE IF NOT EXISTS {} (name BLOB PRIMARY KEY, stamp TEXT, value TEXT)"


class RunEntry:
    """One run of the index. Config and metrics are read when they are asked for.

    Args:
        index: Where it is listed.
        name: As a user types it; a stage of a pipeline is `pipeline/stage`.
        folder: Of the run.
        record: Its run.json.
    """

    def __init__(self, index: Index, name: str, folder: Path, record: dict[str, Any]) -> None:
        self.index, self.name, self.folder, self.record = index, name, folder, record

    def __repr__(self) -> str:
        about = [self.record.get(key) for key in ("algorithm", "env")]
        return f"<run {self.name}: {' on '.join(str(x) for x in about if x)}, {self.status}>"

    @property
    def run(self) -> Run:
        return Run(self.folder)

    @property
    def is_stage(self) -> bool:
        return "/" in self.name

    @property
    def is_pipeline(self) -> bool:
        return self.record.get("kind") == "pipeline"

    @property
    def status(self) -> str:
        """As recorded; a run whose process died without a word is stopped, and `rl resume` continues."""
        recorded = str(self.record.get("status") or "unknown")
        dead = recorded in ("running", "started") and self.record.get("pid") and _here(self.record)
        return "stopped" if dead and not alive(self.record) else recorded

    @property
    def config(self) -> dict[str, Any]:
        """Flat settings, by dotted key."""
        return self.index.part("config", self.name, self.folder / "config.yaml", read_settings)

    @property
    def metrics(self) -> dict[str, float]:
        """The newest value of every metric."""
        return self.index.part("metrics", self.name, self.folder / "metrics.csv", newest)


class Index:
    """All runs below a folder.

    Args:
        root: The folder; null: where runs live (RL_LOGS or lightning_logs).
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = logs_root() if root is None else Path(root)
        self._known: dict[str, dict[str, tuple[str, str]]] = {}
        self._fresh: dict[str, dict[str, tuple[str, str]]] = {part: {} for part in PARTS}
        self._gone: set[str] = set()

    def runs(self) -> list[RunEntry]:
        """Every run and every stage of a pipeline, oldest first."""
        entries = []
        for name, folder in _folders(str(self.root)):
            run = self._listed(name, folder)
            if run is None:
                continue
            entries.append(run)
            if run.is_pipeline:
                listed = (self._listed(f"{name}/{stage}", path) for stage, path in _folders(folder))
                stages = sorted((stage for stage in listed if stage is not None), key=_created)
                run.record = {
                    **run.record,
                    "algorithm": "pipeline",
                    **_outcome(stages, _last_named(run.config)),
                }
                entries += stages
        there = {run.name for run in entries}
        self._gone = {name for name in self._part("record") if name not in there}
        return sorted(entries, key=_created)

    def _listed(self, name: str, folder: str) -> RunEntry | None:
        path = f"{folder}/{RECORD}"
        if not os.path.isfile(path):
            return None
        return RunEntry(self, name, Path(folder), self.part("record", name, path, _read_record))

    def part(
        self, kind: str, name: str, path: str | Path, read: Callable[[Path], dict[str, Any]]
    ) -> dict[str, Any]:
        """What a file of a run says, from the index if the file is the one that was indexed."""
        try:
            state = os.stat(path)
        except OSError:
            return {}
        stamp = f"{state.st_mtime_ns}-{state.st_size}-{state.st_ino}"
        known = self._fresh[kind].get(name) or self._part(kind).get(name)
        if known is not None and known[0] == stamp:
            with contextlib.suppress(ValueError):
                return dict(json.loads(known[1]))
        try:
            value = read(Path(path))
        except OSError:
            return {}
        self._fresh[kind][name] = (stamp, json.dumps(value, default=str))
        return value

    def _part(self, kind: str) -> dict[str, tuple[str, str]]:
        """One table of the index file, by run name."""
        if kind not in self._known:
            self._known[kind] = {}
            path = self.root / FILE
            if path.is_file():
                try:
                    with contextlib.closing(_open(path)) as connection:
                        rows = connection.execute(f"SELECT name, stamp, value FROM {kind}").fetchall()
                    self._known[kind] = {os.fsdecode(name): (stamp, value) for name, stamp, value in rows}
                except sqlite3.DatabaseError as error:
                    _drop_if_damaged(path, error)
        return self._known[kind]

    def save(self) -> None:
        """Keeps what was read for the next time; no reason to fail if that cannot be done."""
        if not self._gone and not any(self._fresh.values()):
            return
        path = self.root / FILE
        try:
            with contextlib.closing(_open(path)) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                for kind, rows in self._fresh.items():
                    values = [(os.fsencode(name), stamp, value) for name, (stamp, value) in rows.items()]
                    connection.executemany(f"INSERT OR REPLACE INTO {kind} VALUES (?, ?, ?)", values)
                    gone = [(os.fsencode(name),) for name in self._gone]
                    connection.executemany(f"DELETE FROM {kind} WHERE name = ?", gone)
        except sqlite3.DatabaseError as error:
            _drop_if_damaged(path, error)
        except (OSError, UnicodeError):
            return

    def __enter__(self) -> Index:
        return self

    def __exit__(self, *_: object) -> None:
        self.save()


def _created(run: RunEntry) -> tuple[str, str]:
    return str(run.record.get("created") or ""), run.name


def _last_named(settings: dict[str, Any]) -> str:
    """Name of the last stage in a pipeline's config; empty if that names none."""
    keys = [key.split(".") for key in settings if key.startswith("stages.")]
    return keys[-1][1] if keys and len(keys[-1]) > 1 else ""


def _outcome(stages: list[RunEntry], last: str) -> dict[str, Any]:
    """What a pipeline has come to: task, clocks and scores of its last stage, in the newest cycle that has any.

    Args:
        stages: Oldest first.
        last: Name of the stage that all others are for; empty: whichever ran last.
    """
    pattern = re.compile(rf".*/{re.escape(last)}(-\d+)?" if last else ".*")
    for stage in reversed(stages):
        if stage.record.get("best") is not None and pattern.fullmatch(stage.name):
            return {key: stage.record[key] for key in OUTCOME if stage.record.get(key) is not None}
    return {key: stages[-1].record.get(key) for key in ("env", "data", "seed")} if stages else {}


def _here(record: dict[str, Any]) -> bool:
    return record.get("host") in (None, os.uname().nodename)


def _folders(root: str) -> list[tuple[str, str]]:
    try:
        with os.scandir(root) as entries:
            return [(e.name, e.path) for e in entries if not e.name.startswith(".") and e.is_dir()]
    except OSError:
        return []


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return {"status": "damaged"}
    return record if isinstance(record, dict) else {"status": "damaged"}


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10.0, isolation_level=None)
    try:
        if _version(connection) != VERSION:
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) != VERSION:  # unless another process was faster
                for kind in PARTS:
                    connection.execute(f"DROP TABLE IF EXISTS {kind}")
                    connection.execute(_TABLE.format(kind))
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _drop_if_damaged(path: Path, error: sqlite3.DatabaseError) -> None:
    """A file that is not a database is made anew next time; one that is busy or read-only is left alone."""
    if not isinstance(error, sqlite3.OperationalError):
        with contextlib.suppress(OSError):
            path.unlink()
