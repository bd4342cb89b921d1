"""Tensors of a .pt file, loaded with nothing but tensors and plain values allowed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rl_lightning.datasets.formats.memory_budget import check_budget
from rl_lightning.datasets.formats.npz import check_magic, damaged
from rl_lightning.datasets.formats.raw import wanted
from rl_lightning.errors import DataError

if TYPE_CHECKING:
    from torch import Tensor


def read_pt(path: Path) -> dict[str, Any]:
    """The arrays of a dictionary of tensors, by the file's own names."""
    import torch  # takes a second, which commands that only look do not have

    check_magic(path)
    _check_archive(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        if "weights_only" in str(error) or "Weights only" in str(error):
            raise DataError(
                f"{path}: holds more than tensors and plain values; it is not read, since that can run code"
            ) from None
        raise damaged(path, error) from None
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds a {type(content).__name__}; a dictionary of tensors is needed")
    tensors = {str(key): value for key, value in content.items() if isinstance(value, torch.Tensor)}
    for key, value in tensors.items():
        _check_plain(path, key, value)
    check_budget(path, {key: value.numel() * value.element_size() for key, value in tensors.items()})
    arrays = {str(key): _array(path, str(key), value) for key, value in content.items()}
    return arrays


def _check_archive(path: Path) -> None:
    """What the file unpacks to, which may be far more than its size."""
    if not zipfile.is_zipfile(path):
        check_budget(path, {path.name: path.stat().st_size})
        return
    try:
        with zipfile.ZipFile(path) as archive:
            check_budget(path, {info.filename: info.file_size for info in archive.infolist()})
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise damaged(path, error) from None


def _check_plain(path: Path, key: str, tensor: Tensor) -> None:
    """A dense tensor of ordinary numbers with values of its own."""
    import torch

    what = None
    if tensor.is_meta:
        what = "a tensor without values (device meta)"
    elif tensor.layout is not torch.strided or tensor.is_nested:
        what = f"a tensor that is not dense ({str(tensor.layout).removeprefix('torch.')})"
    elif tensor.is_quantized or (tensor.is_floating_point() and tensor.element_size() < 2):
        what = f"numbers of type {str(tensor.dtype).removeprefix('torch.')}"
    if what is not None and wanted(key):
        raise DataError(f"{path}: '{key}' holds {what}; it is not read.\nSave it as a dense float32 tensor")


def _array(path: Path, key: str, value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        if not wanted(key):
            return None
        value = value.float() if value.dtype == torch.bfloat16 else value
        return value.detach().resolve_conj().resolve_neg().numpy()
    if isinstance(value, list | tuple):
        try:
            return np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            raise DataError(
                f"{path}: rows of '{key}' differ in length; each step needs as many numbers"
            ) from None
    return value
