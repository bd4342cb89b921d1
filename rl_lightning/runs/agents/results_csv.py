"""results.csv: one row per finished evaluation, with all that is needed to make it again."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from rl_lightning.errors import DataError
from rl_lightning.io.lock import wait_for

HEADER = (
    "task",
    "algorithm",
    "density",
    "percentile",
    "seed",
    "return",
    "normalized_score",
    "normalization",
    "length",
    "episodes",
    "config_hash",
    "git",
    "data_hash",
    "run",
    "checkpoint",
    "changed",
    "std",
    "penalty",
    "coefficient",
)
# Files begun before there were columns for changed settings, and for the spread: they go on without.
OLDER = (HEADER[:-4], HEADER[:-3])


def append_result(path: str | Path, row: dict[str, Any]) -> None:
    """Adds a row; processes that append at the same time wait for each other. What a row lacks stays empty."""
    unknown = sorted(row.keys() - set(HEADER))
    if unknown:
        raise DataError(f"{path}: no column '{unknown[0]}'; there are {', '.join(HEADER)}")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        wait_for(file)
        opening, columns = _opening(file, path)
        text = opening + _line([_text(row.get(column)) for column in columns])
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def _opening(file: IO[bytes], path: Path) -> tuple[str, Sequence[str]]:
    """What must stand before a new row (the header of a new file, the end of a cut line), and the file's columns."""
    file.seek(0)
    whole = file.read()
    if not whole:
        return _line(HEADER), HEADER
    first = whole.split(b"\n", 1)[0].decode("utf-8", "replace")
    columns = _check(next(csv.reader([first]), []), path)
    return "" if whole.endswith(b"\n") else "\n", columns


def _check(columns: Sequence[str] | None, path: Path) -> Sequence[str]:
    if tuple(columns or ()) not in (HEADER, *OLDER):
        raise DataError(f"{path}: its columns are not those of a results file. Move it away and run again")
    return tuple(columns or ())


def _line(values: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerow(values)
    return out.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)
