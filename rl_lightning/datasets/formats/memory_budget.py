"""How much of the memory one data file may take, known before any of it is read."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from rl_lightning.errors import DataError

SHARE = 0.5  # of the free memory: learning packs the rows once more
PER_BYTE = 16  # Python objects take about so many bytes for each of a text file


def check_budget(where: object, sizes: dict[str, int]) -> None:
    """Raises if all arrays of a file together take more memory than one file may.

    Args:
        where: The file.
        sizes: Bytes that each array takes once it is read.
    """
    total, most = sum(sizes.values()), SHARE * psutil.virtual_memory().available
    if total <= most:
        return
    largest = max(sizes, key=lambda key: sizes[key])
    raise DataError(
        f"{where}: unpacks to {total / 2**30:.1f} GB (most of it '{largest}'), more than half of the free memory "
        f"({most / 2**30:.1f} GB).\nUse a machine with more memory, or write fewer rows"
    )


def check_text(path: Path) -> None:
    """The same of a file that is read as Python objects."""
    check_budget(path, {path.name: os.path.getsize(path) * PER_BYTE})
