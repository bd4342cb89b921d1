"""Overrides of `fit` and `resume`: plain settings become flags, classes their names, other objects are handed over."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rl_lightning.errors import ConfigError


class Overrides(NamedTuple):
    """What the engine takes: flags, packages that they may name, and objects by the arguments they are."""

    flags: list[str]
    imports: list[str]
    given: dict[str, Any]


def sort_out(
    overrides: Mapping[str, Any] | None, short: Mapping[str, Any], imports: Sequence[str] = ()
) -> Overrides:
    """Settings that are None are left as they are; one that is to be null is written "null".

    Args:
        overrides: Settings by their dotted names.
        short: Those that have an argument of their own, which goes first.
        imports: Packages that the user names.
    """
    sorted_out = Overrides([], list(imports), {})
    own = {key: value for key, value in short.items() if value is not None}
    for key, value in {**(overrides or {}), **own}.items():
        if value is None:
            continue
        if is_plain(value):
            sorted_out.flags.append(
                f"--{key}={value if isinstance(value, str) else json.dumps(_whole(key, value))}"
            )
        elif (last := key.rpartition(".")[2]) in ("model", "data"):
            path, module = named_class(last, value)
            sorted_out.flags.append(f"--{key}={path}")
            sorted_out.imports.extend([module] if module not in sorted_out.imports else [])
        else:
            sorted_out.given[key] = value
    return sorted_out


def is_plain(value: Any) -> bool:
    """Whether a config can hold it."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(is_plain(item) for item in value)
    return value is None or isinstance(value, str | bool | int | float)


def named_class(key: str, value: Any) -> tuple[str, str]:
    """The path and module of a class that is to be the model or the data; it is trusted, because it is handed over."""
    from rl_lightning.algorithms import RLModule
    from rl_lightning.datamodules import RLData
    from rl_lightning.models.described import named, path_of

    base = {"model": RLModule, "data": RLData}[key]
    if not isinstance(value, type) or not issubclass(value, base):
        raise ConfigError(
            f"{key}: give a subclass of {base.__name__} itself, its settings beside it ({key}.lr, ...), not "
            f"{value!r:.60}; a made one goes into a Trainer by hand"
        )
    if not named(value):
        raise ConfigError(
            f"{key}: {value.__qualname__} has no name to find it by; define it at the top of a module"
        )
    return path_of(value), value.__module__


def _whole(key: str, value: Any) -> Any:
    """A budget or interval of 1e6, which Python takes for a float."""
    counted = key.startswith("run.") and isinstance(value, float) and value.is_integer()
    return int(value) if counted else value
