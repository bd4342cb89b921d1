"""Real files of other projects, where they are: $RL_PUBLIC_DATA/demos. None of them is part of this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def public_file(name: str) -> Path:
    """The file of that name, or the test is skipped."""
    folder = os.environ.get("RL_PUBLIC_DATA")
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    path = (Path(folder) if folder else beside) / "demos" / name
    if not path.is_file():
        pytest.skip(f"{name} is not here; set RL_PUBLIC_DATA to the folder that has demos/{name}")
    return path
