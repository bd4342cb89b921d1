"""Replay on disk: append-only, immutable files beside the checkpoints, which name the ones they need.

A save writes only the rows that are new since the last one, and an older checkpoint still finds its own rows after the
ring has overwritten them in memory.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor

from rl_lightning.errors import ResumeError
from rl_lightning.io.atomic import atomic_open

SegmentRecord = dict[str, Any]  # file, size, sha256, start, end: the rows it holds, as the buffer counts them


class SegmentStore:
    """The segment files of one rank.

    Args:
        folder: Where they lie.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[SegmentRecord] = []
        self.parts: dict[str, SegmentStore] = {}

    def part(self, name: str) -> SegmentStore:
        """The store of one of several buffers; its files lie in the same folder, since their content names them."""
        return self.parts.setdefault(name, SegmentStore(self.folder))

    def files(self) -> list[str]:
        """Names of all segments that are needed."""
        own = [str(record["file"]) for record in self.records]
        return own + [name for part in self.parts.values() for name in part.files()]

    def append(self, tensors: dict[str, Tensor], start: Any, end: Any) -> None:
        """Writes a new segment, flushed to disk, under a name that its content decides."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = save_bytes({name: tensor.contiguous() for name, tensor in tensors.items()})
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / f"{digest[:24]}.safetensors"
        with atomic_open(path, sync=True) as file:
            file.write(content)
        self.records.append(
            {"file": path.name, "size": len(content), "sha256": digest, "start": start, "end": end}
        )

    def read(self, record: SegmentRecord) -> dict[str, Tensor]:
        """The tensors of a segment, once its size and checksum were found right."""
        name = str(record["file"])
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise ResumeError(f"{name!r} is not a replay segment of this run")
        path = self.folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ResumeError(f"{path}: replay segment cannot be read ({error.strerror})") from None
        if len(content) != record["size"] or hashlib.sha256(content).hexdigest() != record["sha256"]:
            raise ResumeError(
                f"{path}: replay segment is damaged (size or checksum differs from the checkpoint's)"
            )
        try:
            return load_bytes(content)
        except SafetensorError as error:
            raise ResumeError(f"{path}: not a replay segment ({error})") from None
