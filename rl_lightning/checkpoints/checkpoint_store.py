"""Checkpoints on disk: folders that appear whole or not at all, each with a plain description of what it holds.

    checkpoints/last-000007/   model.ckpt  rank-0.pt  [rank-1.pt ...]  meta.json
    checkpoints/step-20000/    a milestone, the same
    checkpoints/best.ckpt      the weights of the best evaluation, and best.json
    checkpoints/replay/        rows of all of them, in segments

meta.json is readable without torch; it is written last and names every file with its size and checksum.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

import torch

from rl_lightning.errors import ResumeError
from rl_lightning.io.atomic import atomic_open, sync_folder, write_json
from rl_lightning.io.checkpoint_files import read_file, read_meta

FORMAT = 1
PLAIN = (bool, int, float, complex, str, bytes, torch.Tensor, torch.dtype, torch.Size, type(None))


def check_plain(value: Any, where: str = "state") -> None:
    """Refuses, when saving, what a weights-only load would refuse when it is needed."""
    if type(value) in PLAIN or isinstance(value, torch.Tensor):
        return
    if isinstance(value, dict):
        for key, item in value.items():
            check_plain(key, f"{where} (key {key!r})")
            check_plain(item, f"{where}.{key}")
    elif type(value) in (list, tuple, set):
        for i, item in enumerate(value):
            check_plain(item, f"{where}[{i}]")
    elif not _registered(type(value)):
        raise ResumeError(
            f"{where} is a {type(value).__name__}: a checkpoint holds tensors and plain values only"
        )


def _registered(kind: type) -> bool:
    return kind in torch.serialization.get_safe_globals()


def write_file(state: Any, path: Path) -> None:
    """Writes one file, whole and flushed to disk."""
    check_plain(state, path.name)
    try:
        with atomic_open(path, sync=True) as file:
            torch.save(state, file)
    except RuntimeError as error:  # torch's writer, which is closed in the middle, hides what the disk said
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        raise
    sync_folder(path.parent)


def checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove(generation: Path) -> None:
    """Takes its name away first: half of a deleted generation must not look like one."""
    hidden = generation.with_name(f".{generation.name}.old.tmp")
    os.replace(generation, hidden)
    shutil.rmtree(hidden)


class CheckpointStore:
    """The checkpoint folder of a run.

    Args:
        folder: checkpoints/ of the run.
        keep: Checkpoints of `last` that stay.
    """

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder = folder
        self.keep = keep

    def checkpoints(self, kind: str = "last") -> list[Path]:
        """Checkpoints of a kind, oldest first."""
        if not self.folder.is_dir():
            return []
        numbered = [(p.name.removeprefix(f"{kind}-"), p) for p in self.folder.glob(f"{kind}-*") if p.is_dir()]
        return [path for number, path in sorted((int(n), p) for n, p in numbered if n.isdigit())]

    def next_serial(self) -> int:
        checkpoints = self.checkpoints()
        return int(checkpoints[-1].name.removeprefix("last-")) + 1 if checkpoints else 1

    def begin(self, name: str) -> Path:
        """An empty folder to fill; what a killed process left behind is removed first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob(".*.tmp*"):
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        temporary = self.folder / f".{name}.tmp"
        temporary.mkdir()
        return temporary

    def finish(self, temporary: Path, name: str, meta: dict[str, Any]) -> Path:
        """Describes and checks the files, then gives the folder its name."""
        files = {
            p.name: {"size": p.stat().st_size, "sha256": checksum(p)} for p in sorted(temporary.iterdir())
        }
        write_json(temporary / "meta.json", {"format": FORMAT, **meta, "files": files})
        sync_folder(temporary)
        final = self.folder / name
        if final.exists():  # a milestone that a resumed run reaches again: the new one is the same
            remove(final)
        os.replace(temporary, final)
        sync_folder(self.folder)
        return final

    def prune(self) -> None:
        """Drops old generations, then segments that no remaining one names."""
        for old in self.checkpoints()[: -self.keep]:
            remove(old)
        needed: set[str] = set()
        for folder in self.folder.iterdir():
            if (folder / "meta.json").is_file():
                with contextlib.suppress(ResumeError):  # a damaged one needs nothing any more
                    needed |= set(read_meta(folder)["segments"])
        for segment in self.folder.glob("replay/*/*"):
            if f"{segment.parent.name}/{segment.name}" not in needed:
                segment.unlink()

    def newest_valid(self) -> tuple[Path, list[str]]:
        """The newest generation whose files are all there and right, and what was wrong with newer ones."""
        wrong: list[str] = []
        for folder in reversed(self.checkpoints()):
            try:
                verify(folder)
            except ResumeError as error:
                wrong.append(str(error))
                continue
            return folder, wrong
        reasons = f" ({'; '.join(wrong)})" if wrong else ""
        raise ResumeError(f"{self.folder}: no checkpoint to resume from{reasons}{self._instead()}")

    def _instead(self) -> str:
        """The line that begins a new run with what is still whole: all of a milestone, or weights alone."""
        fit = f"\nrl fit --config {self.folder.parent / 'config.yaml'} --ckpt_path"
        for folder in reversed(self.checkpoints("step")):
            with contextlib.suppress(ResumeError):
                verify(folder)
                return f"{fit} {folder}"
        weights = [folder / "model.ckpt" for folder in reversed(self.checkpoints())]
        for path in (*weights, self.folder / "best.ckpt"):
            with contextlib.suppress(ResumeError):
                read_file(path)
                return f"{fit} {path} --resume_mode warm_start"
        return ""


def verify(folder: Path, replay: bool = True) -> dict[str, Any]:
    """Raises unless every file that meta.json names is there with its size and checksum.

    Args:
        folder: The generation.
        replay: Whether its rows are needed; weights alone can do without.
    """
    meta = read_meta(folder)
    if meta.get("format") != FORMAT:
        raise ResumeError(f"{folder}: checkpoint format {meta.get('format')}, this version reads {FORMAT}")
    for name, expected in meta["files"].items():
        path = folder / name
        if Path(name).name != name:
            raise ResumeError(f"{folder}: meta.json names {name!r}, which lies outside")
        if not path.is_file():
            raise ResumeError(f"{path}: missing")
        if path.stat().st_size != expected["size"] or checksum(path) != expected["sha256"]:
            raise ResumeError(f"{path}: size or checksum differs from meta.json")
    if "model.ckpt" not in meta["files"]:
        raise ResumeError(f"{folder}: meta.json names no model.ckpt")
    if replay:
        _verify_replay(folder, meta["segments"])
    return meta


def _verify_replay(folder: Path, segments: list[str]) -> None:
    for name in segments:
        segment = folder.parent / "replay" / name
        if ".." in Path(name).parts or Path(name).is_absolute():
            raise ResumeError(f"{folder}: meta.json names {name!r}, which lies outside")
        if not segment.is_file():
            raise ResumeError(f"{segment}: replay segment is missing")
        about = segment.stat()
        if not _holds_its_name(segment, about.st_size, about.st_mtime_ns):
            raise ResumeError(
                f"{segment}: replay segment is damaged (its checksum is not the one in its name)"
            )


@functools.lru_cache(maxsize=65536)
def _holds_its_name(segment: Path, size: int, mtime: int) -> bool:
    """Whether a segment's content is what its name says. Looked at once: a resume asks several times."""
    return checksum(segment).startswith(segment.stem)
