"""What a checkpoint's folder holds, read safely: its description, and files of tensors and plain values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rl_lightning.errors import ResumeError
from rl_lightning.io.trust import why_not_loaded


def read_file(path: Path) -> Any:
    """Loads tensors and plain values; anything else in the file is refused, never run."""
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ResumeError(f"{path}: no such checkpoint") from None
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        raise ResumeError(
            f"{path}: not a checkpoint that can be loaded safely ({why_not_loaded(error)})"
        ) from None


def read_meta(folder: Path) -> dict[str, Any]:
    """The description of a generation."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        if not isinstance(meta, dict) or not _described(meta):
            raise ValueError("it describes no checkpoint")
        return meta
    except (OSError, ValueError) as error:
        raise ResumeError(f"{folder}: meta.json cannot be read ({error})") from None


def _described(meta: dict[str, Any]) -> bool:
    files, segments = meta.get("files"), meta.setdefault("segments", [])
    return (
        isinstance(files, dict)
        and all(isinstance(about, dict) and about.keys() >= {"size", "sha256"} for about in files.values())
        and isinstance(segments, list)
        and all(isinstance(name, str) for name in segments)
        and all(isinstance(meta.get(key), int) for key in ("env_step", "update", "ranks"))
    )
