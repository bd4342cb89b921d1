"""An agent as Stable-Baselines3 saves it: a zip with weights, and settings that are partly pickled.

Weights are read as tensors, settings as JSON. What is pickled inside (spaces, schedules, classes) is never looked at.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rl_lightning.errors import DataError
from rl_lightning.io.trust import why_not_loaded

MOST_BYTES = 2**30  # of one entry: a zip may claim any size


class SB3Agent(NamedTuple):
    """What a zip holds.

    Args:
        weights: The policy's, by SB3's names.
        settings: What JSON tells: numbers, words, null.
        log_ent_coef: SAC's learned temperature, if it has one.
        version: Of Stable-Baselines3.
    """

    weights: dict[str, Tensor]
    settings: dict[str, Any]
    log_ent_coef: Tensor | None
    version: str


def read_sb3(path: Path) -> SB3Agent:
    try:
        with zipfile.ZipFile(path) as file:
            names = file.namelist()
            if "policy.pth" not in names or "data" not in names:
                raise DataError(f"{path}: no agent of Stable-Baselines3 (it has {', '.join(names[:5])})")
            weights = _tensors(path, "policy.pth", _entry(path, file, "policy.pth"))
            settings = json.loads(_entry(path, file, "data"))
            more = {}
            if "pytorch_variables.pth" in names:
                more = _tensors(path, "pytorch_variables.pth", _entry(path, file, "pytorch_variables.pth"))
            version = ""
            if "_stable_baselines3_version" in names:
                version = _entry(path, file, "_stable_baselines3_version").decode(errors="replace").strip()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, ValueError, RuntimeError) as error:
        raise DataError(f"{path}: no agent of Stable-Baselines3 ({error})") from None
    if not isinstance(settings, dict):
        raise DataError(f"{path}: its settings are no mapping")
    return SB3Agent(weights, settings, more.get("log_ent_coef"), version[:20])


def _entry(path: Path, file: zipfile.ZipFile, name: str) -> bytes:
    if file.getinfo(name).file_size > MOST_BYTES:
        raise DataError(f"{path}: {name} is larger than {MOST_BYTES // 2**20} MB")
    return file.read(name)


def _tensors(path: Path, name: str, content: bytes) -> dict[str, Tensor]:
    try:
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        raise DataError(f"{path}: {name} cannot be loaded safely ({why_not_loaded(error)})") from None
    values = state if isinstance(state, dict) else {}
    return {key: value.float() for key, value in values.items() if isinstance(value, Tensor)}
