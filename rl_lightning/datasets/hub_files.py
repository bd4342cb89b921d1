"""Files and data sets of the Hub, by its own client, which resumes and checks them itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from rl_lightning.datasets.data_files import data_dir
from rl_lightning.datasets.remote_files import hub_parts
from rl_lightning.errors import DataError
from rl_lightning.extras import pip_command


def fetch_from_hub(url: str, part: Path, refused: type[Exception]) -> None:
    """One file of a dataset repository; raises `refused` where it cannot be had there."""
    repository, name = hub_parts(url)
    try:
        import huggingface_hub
    except ImportError:
        raise refused(f"files of the Hub need its client: {pip_command('hub')}") from None
    # beside its place, so that it can be moved there; kept after a cut, so that the client can resume
    folder = part.with_name(f".{part.name}.hub")
    try:
        there = huggingface_hub.hf_hub_download(repository, name, repo_type="dataset", local_dir=folder)
    except Exception as error:  # of another package, from a place of unknown health
        raise refused(_reason(error)) from None
    os.replace(there, part)
    shutil.rmtree(folder, ignore_errors=True)


def get_repository(url: str) -> str:
    """A whole dataset repository, such as one of LeRobot's, into the data folder; where it lies, as text."""
    repository, _ = hub_parts(url)
    try:
        import huggingface_hub
    except ImportError:
        raise DataError(f"{url}: the Hub needs its client. Install it with: {pip_command('hub')}") from None
    target = data_dir() / "hub" / repository
    if target.is_dir():
        return f"{target} is here already"
    target.parent.mkdir(parents=True, exist_ok=True)
    growing: Any = target.with_name(f".{target.name}.part")
    try:
        huggingface_hub.snapshot_download(repository, repo_type="dataset", local_dir=growing)
    except Exception as error:  # of another package, from a place of unknown health
        raise DataError(f"{url}: {_reason(error)}. What came is kept: the same command resumes it") from None
    shutil.rmtree(growing / ".cache", ignore_errors=True)
    os.replace(growing, target)
    return f"{target}: fetched; learn from it with --data.dataset {target}"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:120]}"
