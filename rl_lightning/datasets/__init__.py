"""Recorded experience: D4RL, Minari, plain files and what is recorded here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_lightning.datasets.dataset import Dataset, check_env
    from rl_lightning.datasets.load import load_dataset, read_header
    from rl_lightning.datasets.references import Reference, normalized_score

__all__ = ["Dataset", "Reference", "check_env", "load_dataset", "normalized_score", "read_header"]

_HOME = {
    "Dataset": "dataset",
    "check_env": "dataset",
    "load_dataset": "load",
    "read_header": "load",
    "Reference": "references",
    "normalized_score": "references",
}


def __getattr__(name: str) -> Any:
    """Imported when asked for: `rl data list` does without torch."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
