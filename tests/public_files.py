"""Real files of other projects: in $RL_PUBLIC_DATA, or ../shared/data. None of them is part of this one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def public_file(name: str, kind: str = "demos") -> Path:
    """The file of that name among the demos or experts, or the test is skipped."""
    folder = os.environ.get("RL_PUBLIC_DATA")
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = (Path(folder) if folder else beside) / kind / name
    if not path.is_file():
        pytest.skip(f"{name} is not here; set RL_PUBLIC_DATA to the folder that has {kind}/{name}")
    return path
