"""Objects written down as plain values, and made again from them without running what a file's author chose."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import nn

from rl_lightning.errors import ConfigError, ResumeError
from rl_lightning.factories import class_of, settings_of
from rl_lightning.io.trust import ALLOWED_IMPORTS

GIVEN = "given_in_python"
Plain = dict[str, Any]

# Parts of this package whose classes are arguments of others; the rest of it runs things.
_OURS = (
    "types", "functional", "nn", "optim", "models", "replay", "envs", "datasets", "clock", "rollout", "planning",
    "evolution", "behaviors", "algorithms", "datamodules",
)  # fmt: skip
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_MISSING = object()


def describe(value: Any) -> Any:
    """Plain values as they are, objects and what makes them as class and arguments; all else as "given in Python"."""
    if value is None or isinstance(value, bool | int | float | str | torch.dtype):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if type(value) in (list, tuple):
        return type(value)(describe(item) for item in value)
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    maker = class_of(value)
    arguments = arguments_of(value) if maker is None else settings_of(value) if nameable(maker) else None
    if arguments is None:
        return given_in_python(value)
    return {
        "class_path": path_of(maker or type(value)),
        "init_args": {k: describe(v) for k, v in arguments.items()},
    }


def nameable(cls: type) -> bool:
    """Whether a file may name the class of a factory: ours, torch's networks and optimizers, or an allowed import's."""
    return named(cls) and (_trusted(cls) or within(cls.__module__, *ALLOWED_IMPORTS))


def rewritable(value: Any) -> bool:
    """Whether a file can tell all of it."""
    return next(missing_in(describe(value)), None) is None


def arguments_of(value: Any) -> dict[str, Any] | None:
    """What an object was made with, if its class can be named and keeps every argument under its own name."""
    cls = type(value)
    made_of_code = isinstance(value, type | nn.Module | torch.Tensor | np.ndarray) or inspect.isroutine(value)
    if made_of_code or isinstance(value, functools.partial) or not named(cls):
        return None
    fields = getattr(cls, "_fields", None)
    names = list(fields) if fields else [] if cls.__init__ is object.__init__ else _parameters(cls)
    if names is None:
        return None
    values = {name: getattr(value, name, _MISSING) for name in names}
    return None if _MISSING in values.values() else values


def _parameters(cls: type) -> list[str] | None:
    """Names of a constructor's arguments; None where it takes any."""
    try:
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    except (TypeError, ValueError):
        return None
    open_ended = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)
    return None if open_ended else [p.name for p in parameters]


def named(cls: type) -> bool:
    """Whether the class is what its own path leads to: not one made inside a function, nor a builtin."""
    module = sys.modules.get(cls.__module__)
    return cls.__module__ != "builtins" and getattr(module, cls.__qualname__, None) is cls


def path_of(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def given_in_python(value: Any) -> Plain:
    """What is kept of an object that only Python can hand over: a name to ask for, a hash to know it by."""
    return {GIVEN: name_of(value), "sha256": fingerprint_of(value)}


def name_of(value: Any) -> str:
    value = value.func if isinstance(value, functools.partial) else value
    if isinstance(value, type) or inspect.isroutine(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"a {path_of(type(value))}"


def fingerprint_of(value: Any) -> str | None:
    """A hash of a function's or class's source, of an array's or module's numbers; None for what has neither."""
    digest = hashlib.sha256()
    if isinstance(value, functools.partial):
        value = value.func
    if isinstance(value, np.ndarray | torch.Tensor):
        array = np.ascontiguousarray(value if isinstance(value, np.ndarray) else value.detach().cpu().numpy())
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    elif isinstance(value, nn.Module):
        for name, tensor in sorted(value.state_dict().items()):
            digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(value, dict) and value:
        digest.update("".join(f"{key}={fingerprint_of(value[key])}" for key in sorted(value)).encode())
    else:
        source = _source(value)
        if source is None:
            return None
        digest.update(source)
    return digest.hexdigest()


def _source(value: Any) -> bytes | None:
    thing = value if isinstance(value, type) or inspect.isroutine(value) else type(value)
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(thing).encode()
    code = getattr(value, "__code__", None)
    return None if code is None else bytes(code.co_code)


def is_given(value: Any) -> bool:
    return isinstance(value, dict) and GIVEN in value


def missing_in(value: Any) -> Iterator[str]:
    """Names of what was given in Python, anywhere inside a description."""
    if is_given(value):
        yield str(value[GIVEN])
    elif isinstance(value, dict):
        for item in value.values():
            yield from missing_in(item)
    elif type(value) in (list, tuple):
        for item in value:
            yield from missing_in(item)


def rebuild(value: Any, where: str, hint: Any = Any) -> Any:
    """What `describe` wrote down, made again.

    Args:
        value: A description.
        where: The file that it is from, for errors.
        hint: What the constructor that takes it says it may be: a file cannot put any other class in its place. Where
            it takes what makes one, that is made.
    """
    if type(value) in (list, tuple):
        return type(value)(rebuild(item, where, inner_hint(hint)) for item in value)
    if not isinstance(value, dict):
        return value
    if set(value) != {"class_path", "init_args"}:
        return {key: rebuild(item, where, inner_hint(hint)) for key, item in value.items()}
    cls = trusted_class(str(value["class_path"]), where)
    allowed = classes_in(hint)
    if allowed is not None and not issubclass(cls, allowed):
        raise ConfigError(f"{where} names {value['class_path']} where only {_names(allowed)} may stand")
    if not isinstance(value["init_args"], dict):
        raise ResumeError(f"{where}: init_args of {value['class_path']} are not a mapping")
    hints = hints_of(cls)
    arguments = {
        name: rebuild(item, where, hints.get(name, Any)) for name, item in value["init_args"].items()
    }
    if is_factory(hint) or (hint is Any and wants_more(cls, arguments)):
        return functools.partial(cast(Callable[..., Any], cls), **arguments)
    try:
        return cls(**arguments)
    except TypeError as error:
        raise ResumeError(f"{where}: {cls.__name__} cannot be made again ({error})") from None


def hints_of(cls: type) -> dict[str, Any]:
    """Types of a constructor's arguments; none where they cannot be told here."""
    try:
        return get_type_hints(cls if hasattr(cls, "_fields") else cls.__init__)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError):
        return {}


def classes_in(hint: Any) -> tuple[type, ...] | None:
    """Classes that a hint names; None where it allows any."""
    if hint is Any or isinstance(hint, TypeVar):
        return None
    if is_union(hint):
        parts = [classes_in(part) for part in get_args(hint)]
        return None if None in parts else tuple(cls for part in parts for cls in part or ())
    if get_origin(hint) is Callable:
        return classes_in(get_args(hint)[-1])
    return (hint,) if isinstance(hint, type) and get_origin(hint) is None else ()


def wants_more(cls: type, arguments: dict[str, Any]) -> bool:
    """Whether a constructor needs what no description holds: its owner knows it."""
    with contextlib.suppress(ValueError):
        try:
            inspect.signature(cls).bind(**arguments)
        except TypeError:
            return True
    return False


def is_union(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) or get_origin(hint) is Union


def is_factory(hint: Any) -> bool:
    """Whether a hint asks for what makes an object, not for the object."""
    return any(map(is_factory, get_args(hint))) if is_union(hint) else get_origin(hint) is Callable


def inner_hint(hint: Any) -> Any:
    """What the items of a list or the values of a mapping may be."""
    inner = [part for part in get_args(hint) if part is not Ellipsis]
    if get_origin(hint) in (list, tuple, dict, Sequence, Mapping) and inner:
        return inner[-1]
    if is_union(hint):
        hints = [inner_hint(part) for part in inner if get_args(part)]
        return hints[0] if hints else Any
    return Any


def _names(classes: tuple[type, ...]) -> str:
    return " or ".join(cls.__name__ for cls in classes if cls is not type(None)) or "a plain value"


def trusted_class(class_path: str, where: str) -> type[Any]:
    """The class of a path in a file, which may be a stranger's.

    Ours, torch.nn's and torch.optim's are found. Of all else only what this process has imported already and what
    derives from a class of ours: a file never decides what is imported or called.
    """
    module, _, name = class_path.rpartition(".")
    if not _MODULE.fullmatch(module) or not name.isidentifier():
        raise ConfigError(f"{where} names {class_path[:80]!r}, which is not a class")
    if lies_in_ours(module) or within(module, "torch.nn", "torch.optim"):
        try:
            member = getattr(importlib.import_module(module), name, None)
        except ImportError as error:
            raise ConfigError(
                f"{where} was made with {class_path}, which cannot be imported ({error})"
            ) from None
    else:
        member = getattr(sys.modules.get(module), name, None)
    if isinstance(member, type) and (_trusted(member) or within(module, *ALLOWED_IMPORTS)):
        return member
    root = module.split(".")[0]
    if root not in sys.modules and root not in sys.stdlib_module_names:
        raise ConfigError(
            f"{where} was made with {class_path}; if you trust it, import {root} first (--import {root})"
        )
    raise ConfigError(f"{where} names {class_path}, which is not a class that a checkpoint may make")


def _trusted(cls: type) -> bool:
    """By where the class itself was defined, not by the module that a file found it in."""
    if within(cls.__module__, "torch.nn", "torch.optim"):
        return True
    return any(lies_in_ours(base.__module__) for base in cls.__mro__)


def lies_in_ours(module: str) -> bool:
    return within(module, *(f"rl_lightning.{part}" for part in _OURS))


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
