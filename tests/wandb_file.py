"""What W&B keeps of a run in offline mode."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


def records(folder: Path, seconds: float = 30.0) -> list[Any]:
    """Everything in the one file that a finished run of W&B's wrote, once its own process has closed it."""
    until = time.monotonic() + seconds
    while True:
        found = _read(folder)
        if any(record.WhichOneof("record_type") == "exit" for record in found) or time.monotonic() > until:
            return found
        time.sleep(0.1)


def _read(folder: Path) -> list[Any]:
    """A log of LevelDB's form, in blocks of 32 kB."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    content, place, whole, found = path.read_bytes(), 7, b"", []
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        size, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        if place + 7 + size > len(content):
            break  # W&B's process is still writing it
        whole, place = whole + content[place + 7 : place + 7 + size], place + 7 + size
        if kind in (1, 4):  # whole, or the last part
            found.append(wandb_internal_pb2.Record.FromString(whole))
            whole = b""
    return found


def history(folder: Path) -> list[dict[str, float]]:
    """The rows of numbers that were logged, in order."""
    rows = []
    for record in records(folder):
        if record.WhichOneof("record_type") == "history":
            items = {
                item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item
            }
            rows.append(items)
    return rows
