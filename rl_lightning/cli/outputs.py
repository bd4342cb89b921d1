"""What a command writes: files, looked at before anything is done for them, and notes."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rl_lightning.errors import ConfigError

VIDEOS = (".mp4", ".mkv", ".mov", ".avi")
PICTURES = (".png", ".pdf", ".svg", ".jpg", ".jpeg", ".webp")


def output_file(output: str | None, default: Path, suffixes: tuple[str, ...] = ()) -> Path:
    """Where to write: the default, or what was given if a file can be there. No suffix stands for the first."""
    if not output:
        return default
    path = Path(output)
    if suffixes and not path.suffix:
        path = path.with_name(path.name + suffixes[0])
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigError(f"--output {output}: takes a file that ends in {', '.join(suffixes)}")
    if path.is_dir():
        raise ConfigError(f"--output {output}: is a folder; give a file")
    blocked = next((parent for parent in path.parents if parent.exists()), Path())
    if not blocked.is_dir():
        raise ConfigError(f"--output {output}: {blocked} is not a folder")
    return path


def note(text: str) -> None:
    """Something to know, beside what a command prints."""
    print(text, file=sys.stderr, flush=True)


def terminal_edge() -> int | None:
    """Where the terminal cuts lines; None for a file or a pipe, which do not."""
    return shutil.get_terminal_size((140, 20)).columns if sys.stdout.isatty() else None
