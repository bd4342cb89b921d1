"""Run folders: claimed once, described by run.json, found again by name."""

from __future__ import annotations

import hashlib
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.io.artifact_place import logs_root as logs_root
from rl_lightning.io.atomic import write_json
from rl_lightning.runs.store.hub import PREFIX, WEIGHTS, fetch
from rl_lightning.runs.store.names import check_run_name, did_you_mean

RECORD = "run.json"


class Run:
    """One run's folder and its run.json, which is always replaced whole: a reader never sees half of it.

    Args:
        folder: The run's folder, already claimed.
        name: What it is called; null: as its folder.
    """

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self.folder = Path(folder)
        self.name = name or self.folder.name

    @property
    def command_name(self) -> str:
        """What a user types to name it: RUN, RUN/STAGE, or its folder where that is not below the logs."""
        if self.name != self.folder.name:
            return self.name
        folder, root = self.folder.resolve(), logs_root().resolve()
        return str(folder.relative_to(root)) if folder.is_relative_to(root) else str(self.folder)

    @property
    def config_file(self) -> Path:
        return self.folder / "config.yaml"

    def read(self) -> dict[str, Any]:
        """The record; empty if there is none. A damaged one is reported, never guessed at."""
        try:
            record = json.loads((self.folder / RECORD).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (ValueError, OSError) as error:
            raise ResumeError(f"{self.folder / RECORD}: cannot be read ({error})") from None
        if not isinstance(record, dict):
            raise ResumeError(f"{self.folder / RECORD}: holds no run record")
        return record

    def update(self, **fields: Any) -> None:
        """Sets fields of the record."""
        write_json(self.folder / RECORD, {**self.read(), **fields, "updated": now()}, default=str)

    def replace(self, record: dict[str, Any]) -> None:
        """Puts a whole record back."""
        write_json(self.folder / RECORD, record, default=str)

    def checkpoint(self, which: str = "best") -> Path:
        """The weights of this run: `best`, `last`, a milestone (step-20000), or any path."""
        folder = self.folder / "checkpoints"
        last = [path / "model.ckpt" for path in reversed(self.checkpoints())]
        paths = [Path(which), Path(which) / "model.ckpt", folder / which, folder / which / "model.ckpt"]
        shared = self.folder / WEIGHTS  # of an agent that somebody exported
        candidates = {"best": [folder / "best.ckpt", *last, shared], "last": last}.get(which, paths)
        for path in candidates:
            if path.is_file():
                return path
        names = ["best"] if (folder / "best.ckpt").is_file() else []
        there = names + sorted(path.parent.name for path in folder.glob("*/meta.json"))
        listing = f"it has {', '.join(there)}" if there else "it has none yet"
        raise ResumeError(f"run '{self.name}' has no checkpoint '{which}' ({listing})")

    def checkpoints(self) -> list[Path]:
        """Folders of the saved generations, oldest first."""
        return sorted((self.folder / "checkpoints").glob("last-*"))


def artifacts_dir() -> Path:
    """Where artifacts are linked by name and hash: beside the runs, wherever those are."""
    return logs_root().resolve().parent / "checkpoints"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def claim(name: str | None, stem: str) -> Run:
    """Makes the folder of a new run: the given name, or the first free `stem-1`, `stem-2`, ...

    mkdir decides between two processes that want one name; the loser of a fresh name takes the next number.
    """
    root = logs_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        if name is not None:
            folder = root / check_run_name(name)
            try:
                folder.mkdir()
            except FileExistsError:
                raise ConfigError(
                    f"run name '{name}' is in use ({folder}). Continue it with: rl resume {name}\n"
                    "or choose another --name, or leave it out for a fresh one"
                ) from None
            return Run(folder)
        number = last_number(root, stem) + 1
        while True:
            try:
                (root / check_run_name(f"{stem}-{number}")).mkdir()
                return Run(root / f"{stem}-{number}")
            except FileExistsError:
                number += 1
    except OSError as error:
        raise ConfigError(f"cannot make a run folder below {root}: {error.strerror or error}") from None


def fresh_name(stem: str) -> str:
    """A name no run and no group of seeds uses yet; claiming it is up to the caller."""
    return f"{stem}-{last_number(logs_root(), stem) + 1}"


def last_number(root: Path, stem: str) -> int:
    pattern = re.compile(re.escape(stem) + r"-(\d{1,9})(?:-s\d+)?")
    if not root.is_dir():
        return 0
    return max((int(m.group(1)) for p in root.iterdir() if (m := pattern.fullmatch(p.name))), default=0)


def resolve(run: str) -> Run:
    """A run by name or by path."""
    if "\0" in run or not run:
        raise ConfigError(f"{run!r} is not a run: give a name or a folder; see them with: rl list")
    if run.startswith(PREFIX):
        return Run(fetch(run), run)
    for folder in (logs_root() / run, Path(run)):
        if folder.is_dir() and ((folder / RECORD).exists() or (folder / "config.yaml").exists()):
            return Run(folder)
    if (members := group_of(run)) is not None:
        listing = ", ".join(member.name for member in members)
        raise ConfigError(f"'{run}' is a group of runs; name one of them: {listing}")
    if os.sep in run and Path(run).is_dir():
        raise ConfigError(f"{run} is neither a run nor a shared agent: it has no {RECORD} and no config.yaml")
    names = [folder.name for folder in folders()]
    names += dict.fromkeys(re.sub(r"-s\d+$", "", name) for name in names)  # groups of seeds
    hint = did_you_mean(run, names) or "; see them with: rl list"
    raise ConfigError(f"no run '{run}' below {logs_root()}{hint}")


def resolve_group(name: str) -> list[Run]:
    """A run, or all runs of a group of seeds."""
    return group_of(name) or [resolve(name)]


def group_of(name: str) -> list[Run] | None:
    """The runs of a group of seeds, or None where `name` is none, or is a run itself."""
    if (logs_root() / name / RECORD).is_file() or Path(name, RECORD).is_file():
        return None
    members = [run for run in map(Run, folders()) if run.read().get("group") == name]
    return sorted(members, key=lambda run: run.name) or None


def folders() -> list[Path]:
    """Every run folder, oldest first."""
    root = logs_root()
    paths = [p for p in root.iterdir() if (p / RECORD).is_file()] if root.is_dir() else []
    return sorted(paths, key=lambda path: (path.stat().st_mtime, path.name))


def alive(record: dict[str, Any]) -> bool:
    """Whether the process of a record still runs on this machine."""
    if record.get("host") != os.uname().nodename or not isinstance(record.get("pid"), int):
        return False
    try:
        os.kill(record["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]
