"""Where the loggers, the profiler and the callbacks of a config may write: into the run's folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace
from lightning.pytorch.loggers import Logger
from lightning.pytorch.profilers import Profiler

from rl_lightning.errors import ConfigError

LATE = {"logger": Logger | list[Logger] | bool | None, "profiler": Profiler | str | None}
FOLDERS = (
    "save_dir",
    "dir",
    "dirpath",
    "root_dir",
    "log_dir",
    "folder",
    "default_root_dir",
    "offline_directory",
)


def check_places(trainer: Mapping[str, Any], flags: list[str]) -> None:
    """Refuses a place outside of the run's folder, unless a flag of the user's names it."""
    for key, value in _texts({name: trainer.get(name) for name in (*LATE, "callbacks", "default_root_dir")}):
        name = key.rpartition(".")[2]
        # A callback is made before the run's folder is, so that a place of its own is never inside.
        wrong = name in FOLDERS if key.startswith("callbacks") else name != "class_path" and outside(value)
        if wrong and not given(value, flags):
            raise ConfigError(
                f"trainer.{key} is {value}: a config writes into the run's folder alone. If you trust it, say so "
                f"yourself: --trainer.{key.replace('.init_args', '')} {value}"
            )


def outside(text: str) -> bool:
    path = Path(text)
    return path.is_absolute() or text.startswith(("~", "file:")) or "://" in text or ".." in path.parts


def given(value: str, flags: list[str]) -> bool:
    """Whether a flag for the Trainer says it, alone or as a word of a whole mapping."""
    texts = [flag.partition("=")[2] for flag in flags if flag.startswith("--trainer.")]
    return bool(value) and any(value in (text, *re.split(r"[\s,{}\[\]\"']+", text)) for text in texts)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping | Namespace):
        for name, item in value.items(branches=False) if isinstance(value, Namespace) else value.items():
            yield from _texts(item, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from _texts(item, f"{key}[{place}]")
    elif isinstance(value, str | Path):
        yield key, str(value)


def made_in(folder: Path, trainer: Mapping[str, Any], flags: list[str]) -> dict[str, Any]:
    """The config's loggers and profiler, made once the run has a folder; a relative place is one below it."""
    parser = ArgumentParser(exit_on_error=False)
    for name, kind in LATE.items():
        parser.add_argument(f"--{name}", type=kind, default=None)
    placed = {name: _placed(trainer.get(name), folder, flags) for name in LATE}
    return dict(parser.instantiate(Namespace(**placed)).items())


def _placed(value: Any, folder: Path, flags: list[str]) -> Any:
    if isinstance(value, list | tuple):
        return [_placed(item, folder, flags) for item in value]
    if not isinstance(value, Namespace) or "init_args" not in value:
        return value
    value = value.clone()
    for name in FOLDERS:
        if name in value.init_args and not given(str(value.init_args[name]), flags):
            value.init_args[name] = str(folder / (value.init_args[name] or ""))
    return value
