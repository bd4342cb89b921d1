"""RLlib's JSON lines: one batch a line, some of whose columns are packed (base64 of LZ4 of a pickled array)."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from rl_lightning.datasets.formats.memory_budget import SHARE, check_budget, check_text
from rl_lightning.datasets.formats.plain_pickle import loads
from rl_lightning.datasets.formats.raw import Array, Raw
from rl_lightning.datasets.layouts.column_map import EPISODES, ORDERS, rows_of_table
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command

BATCHES = ("SampleBatch", "MultiAgentBatch")
COLUMNS = (
    "obs", "new_obs", "actions", "rewards", "dones", "terminateds", "truncateds", *EPISODES, *ORDERS,
)  # fmt: skip
PER_LZ4_BYTE = 255  # what a byte can unpack to at most


def is_rllib(path: Path) -> bool:
    """Whether the first line is one of RLlib's batches; of a folder, that of its first file."""
    if path.is_dir():
        path = min(path.glob("*.json"), default=path)
    try:
        with path.open("rb") as file:
            line = next((line for line in file if line.strip()), b"")
        if not line.lstrip().startswith(b"{"):
            return False
        first = json.loads(line)
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and first.get("type") in BATCHES


def read_batches(path: Path) -> Raw:
    """The batches of a file, or of all in a folder, as workers write them."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    parts = [part for file in files for part in _batches(file)]
    names = [name for name in parts[0] if all(name in part for part in parts)]
    try:
        table = {name: np.concatenate([part[name] for part in parts]) for name in names}
    except ValueError:
        raise DataError(f"{path}: its lines differ in the shape of their columns") from None
    if not any(name in table for name in EPISODES):  # each line is a piece of experience of its own
        table["episode"] = np.repeat(np.arange(len(parts)), [len(part["actions"]) for part in parts])
    layout = f"RLlib's JSON lines: {len(parts)} batches"
    if _shifted(table):
        del table["new_obs"]
        layout += "; its new_obs are the next row's, across ends, and left out"
    return rows_of_table(str(path), table, layout)


def _batches(path: Path) -> Iterator[dict[str, Array]]:
    check_text(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _batch(f"{path}: line {number}", line)


def _shifted(table: dict[str, Array]) -> bool:
    """Whether an episode's last next observation is the first one of the episode behind it."""
    following, episode = table.get("new_obs"), next(table[name] for name in EPISODES if name in table)
    if following is None or following.shape != table["obs"].shape:
        return False
    ends = np.flatnonzero(episode[1:] != episode[:-1])
    return any(np.array_equal(following[row], table["obs"][row + 1]) for row in ends)


def _batch(where: str, line: bytes) -> dict[str, Array]:
    try:
        batch = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not JSON that can be read ({str(error)[:80]})") from None
    if not isinstance(batch, dict) or batch.get("type") not in BATCHES:
        raise DataError(f"{where}: is none of RLlib's batches ({', '.join(BATCHES)})")
    if batch["type"] == "MultiAgentBatch":
        batch = _only_policy(where, batch)
    columns = {name: _column(f"{where}, '{name}'", batch[name]) for name in COLUMNS if name in batch}
    for name in ("obs", "actions"):
        if name not in columns:
            raise DataError(f"{where}: no '{name}' (it holds {', '.join(list(batch)[:12])})")
    for name, column in columns.items():
        if len(column) != len(columns["actions"]):
            raise DataError(
                f"{where}: '{name}' has {len(column)} rows and 'actions' {len(columns['actions'])}"
            )
    return columns


def _only_policy(where: str, batch: dict[str, Any]) -> dict[str, Any]:
    policies = batch.get("policy_batches")
    if not isinstance(policies, dict) or len(policies) != 1:
        names = ", ".join(policies) if isinstance(policies, dict) else "none"
        raise DataError(f"{where}: batches of several policies ({names}); one policy's are read")
    return next(iter(policies.values()))


def _column(where: str, value: Any) -> Array:
    array = unpacked(where, value) if isinstance(value, str) else value
    try:
        array = np.asarray(array)
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{where}: rows differ in length; each step needs as many numbers") from None
    if array.ndim == 0 or array.dtype.hasobject:
        raise DataError(f"{where}: holds no array with one row per step")
    return array


def unpacked_column(where: str, texts: list[str]) -> Array:
    """A column of which each row is packed by itself."""
    rows: list[Array] = []
    try:
        for number, text in enumerate(texts):
            rows.append(np.asarray(unpacked(f"{where}, row {number}", text)))
            if not number:
                check_budget(where, {"unpacked": rows[0].nbytes * len(texts)})
        return np.stack(rows)
    except ValueError:
        raise DataError(f"{where}: rows differ in shape; each step needs as many numbers") from None


def unpacked(where: str, text: str) -> Any:
    """A packed column; its pickle is read by the reader that knows arrays alone."""
    try:
        import lz4.frame
    except ImportError:
        raise DataError(
            f"{where} is packed with LZ4. Install its reader with: {pip_command('data')}"
        ) from None
    try:
        content = base64.b64decode(text, validate=True)
        known = lz4.frame.get_frame_info(content)["content_size"]
        check_budget(where, {"packed": known or len(content)})
        reader = lz4.frame.LZ4FrameDecompressor()
        most = min(PER_LZ4_BYTE * len(content), int(SHARE * psutil.virtual_memory().available))
        plain = reader.decompress(content, max_length=most)
    except (binascii.Error, RuntimeError, ValueError, EOFError) as error:
        raise DataError(f"{where}: cannot be unpacked ({str(error)[:80]})") from None
    if not reader.eof:
        raise DataError(f"{where}: is cut short, or unpacks to more than half of the free memory")
    return loads(where, plain)
