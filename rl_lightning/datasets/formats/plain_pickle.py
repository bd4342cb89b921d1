"""Pickles of plain arrays, read without running anything.

A pickle can run anything when it is loaded. This reader knows arrays, numbers, texts and containers by name and
refuses every other name before it is looked up; what it knows takes no more memory than the file has bytes. Tensors of
torch become arrays, defaultdicts dictionaries, deques lists.
"""

from __future__ import annotations

import io
import math
import pickle
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import psutil

from rl_lightning.datasets.formats.memory_budget import SHARE, check_budget
from rl_lightning.errors import DataError

MOST_PER_BYTE = 100  # numbers that a byte of a file may stand for: lists can hold one another many times over


class _Latin1:
    """What old pickles call to turn text into bytes, for that one encoding."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str = "latin1") -> bytes:
        if type(text) is not str or encoding not in ("latin1", "latin-1"):
            raise pickle.UnpicklingError("bytes in an odd encoding")
        return text.encode("latin1")


class _ArrayClass:
    """Stands for numpy.ndarray, which is named by pickles and never called: it would allocate what it is told."""

    __slots__ = ()


class _Reconstruct:
    """An empty array, which its state then fills: the state's bytes are in the file."""

    __slots__ = ()

    def __call__(self, kind: Any, shape: Any, code: Any) -> np.ndarray:
        if not isinstance(kind, _ArrayClass) or shape != (0,):
            raise pickle.UnpicklingError("an array of another kind")
        return np.ndarray((0,), "b")


class _Scalar:
    """A number from its bytes."""

    __slots__ = ()

    def __call__(self, dtype: Any, content: Any = None) -> Any:
        if (
            not isinstance(dtype, np.dtype)
            or dtype.kind not in "biufcSU"
            or not isinstance(content, bytes | str)
        ):
            raise pickle.UnpicklingError("a number without a value")
        if isinstance(content, str):
            content = _Latin1()(content)
        return np.frombuffer(content, dtype, count=1)[0]


class _Bytes:
    """A bytearray of bytes that are in the file, never one of a given length."""

    __slots__ = ()

    def __call__(self, content: bytes | str = b"", encoding: str = "latin1") -> bytearray:
        if isinstance(content, str):
            content = _Latin1()(content, encoding)
        if not isinstance(content, bytes):
            raise pickle.UnpicklingError("a bytearray without its bytes")
        return bytearray(content)


class _FromBuffer:
    """An array over bytes that are in the file, as protocol 5 writes them."""

    __slots__ = ()

    def __call__(self, content: bytes | bytearray, dtype: Any, shape: Any, order: str) -> np.ndarray:
        return np.frombuffer(content, dtype).reshape(shape, order=order)  # type: ignore[call-overload]


class _Factory:
    """What a defaultdict would make its missing values of: named by pickles, and never called."""

    __slots__ = ()


class _DefaultDict:
    """An ordinary dictionary in place of one that makes values."""

    __slots__ = ()

    def __call__(self, factory: Any = None) -> dict[Any, Any]:
        if not isinstance(factory, _Factory | None):
            raise pickle.UnpicklingError("a defaultdict of something else than plain containers")
        return {}


class _Deque:
    """A list in place of a deque, which the pickle then fills."""

    __slots__ = ()

    def __call__(self, values: Any = (), most: int | None = None) -> list[Any]:
        if values not in ((), []):  # pickles fill it afterwards
            raise pickle.UnpicklingError("a deque that is made of something")
        return []


class _Storage:
    """The numbers of a torch tensor, by torch's own reader of nothing but tensors."""

    __slots__ = ()

    def __call__(self, content: bytes) -> Any:
        import torch

        if not isinstance(content, bytes):
            raise pickle.UnpicklingError("a tensor without its bytes")
        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


class _Tensor:
    """An array in place of a torch tensor: a window on numbers that are in the file."""

    __slots__ = ()

    def __call__(
        self, storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *rest: Any
    ) -> np.ndarray:
        import torch

        if not isinstance(storage, torch.storage.TypedStorage):
            raise pickle.UnpicklingError("a tensor without numbers")
        if math.prod(size) > len(storage):
            raise pickle.UnpicklingError("a tensor that repeats its numbers")
        plain = torch.empty(0, dtype=storage.dtype).set_(storage.untyped(), offset, size, stride)
        plain = plain.float() if plain.dtype == torch.bfloat16 else plain
        return plain.numpy()


class _Parameter:
    """The array of a torch parameter."""

    __slots__ = ()

    def __call__(self, data: Any, *rest: Any) -> Any:
        return data


_FACTORIES = ("list", "dict", "set", "tuple", "int", "float", "bool", "str")
_CORES = ("numpy.core", "numpy._core")
ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ArrayClass(),
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _Latin1(),
    ("builtins", "bytearray"): _Bytes(),
    ("builtins", "complex"): complex,
    ("collections", "OrderedDict"): dict,
    ("collections", "defaultdict"): _DefaultDict(),
    ("collections", "deque"): _Deque(),
    ("torch.storage", "_load_from_bytes"): _Storage(),
    ("torch._utils", "_rebuild_tensor_v2"): _Tensor(),
    ("torch._utils", "_rebuild_parameter"): _Parameter(),
    **{(module, name): _Factory() for module in ("builtins", "__builtin__") for name in _FACTORIES},
    **{(f"{core}.multiarray", "_reconstruct"): _Reconstruct() for core in _CORES},
    **{(f"{core}.multiarray", "scalar"): _Scalar() for core in _CORES},
    **{(f"{core}.numeric", "_frombuffer"): _FromBuffer() for core in _CORES},
}  # fmt: skip


COPIES = tuple(
    kind for kind, call in ADMITTED.items() if isinstance(call, _Latin1 | _Bytes | _Storage | _Tensor)
)


# The one in Python: that in C makes room for the largest number that a pickle gives a note, gigabytes for ten bytes.
class PlainUnpickler(pickle._Unpickler):
    """Loads arrays, numbers, texts and containers; any other name in the pickle is refused unseen."""

    copied = 0  # bytes: what is in the file once may be named many times

    def find_class(self, module: str, name: str) -> Any:
        member = ADMITTED.get((module, name))
        if member is None:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return partial(self._count, member) if (module, name) in COPIES else member

    def _count(self, make: Any, *arguments: Any) -> Any:
        """Calls it, as long as all copies together fit into memory."""
        copy = make(*arguments)
        size = copy.nbytes if hasattr(copy, "nbytes") else len(copy)
        self.copied += size() if callable(size) else size
        if self.copied > SHARE * psutil.virtual_memory().available:
            raise pickle.UnpicklingError("the same bytes many times over")
        return copy


def read_pickle(path: Path) -> Any:
    check_budget(path, {path.name: path.stat().st_size})
    with path.open("rb") as file:
        return _load(str(path), file)


def loads(where: str, content: bytes) -> Any:
    """The same of bytes that a file holds."""
    return _load(where, io.BytesIO(content))


def _load(where: str, file: IO[bytes]) -> Any:
    try:
        return PlainUnpickler(file, encoding="latin1").load()
    except pickle.UnpicklingError as error:
        raise DataError(
            f"{where}: names '{str(error)[:80]}', which is more than plain arrays; it was not run and is not read.\n"
            "Save its arrays with numpy.savez instead, and convert that"
        ) from None
    except Exception as error:  # a damaged or hostile pickle can raise nearly anything
        raise DataError(f"{where}: not a pickle of plain arrays ({type(error).__name__})") from None


def check_numbers(path: Path, value: Any) -> None:
    """Raises if lists that hold one another stand for far more numbers than the file can have."""
    try:
        count = _count(value, {})
    except RecursionError:
        raise DataError(
            f"{path}: its lists are nested too deeply, or hold themselves; it is not read"
        ) from None
    if count > MOST_PER_BYTE * path.stat().st_size:
        raise DataError(
            f"{path}: its lists unpack to {count:.3g} numbers from {path.stat().st_size} bytes; it is not read.\n"
            "Save its arrays with numpy.savez instead, and convert that"
        )
    check_budget(path, {path.name: 8 * count})


def _count(value: Any, known: dict[int, int]) -> int:
    """Numbers that a value stands for, each container counted once and remembered."""
    if isinstance(value, np.ndarray):
        return int(value.size)
    if not isinstance(value, list | tuple | dict | set | frozenset):
        return 1
    if id(value) not in known:
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = sum(_count(part, known) for part in parts)
    return known[id(value)]
