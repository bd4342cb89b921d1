"""What makes a part once its sizes are known: a class, a `functools.partial` of one, or a function of the user's.

A part of ours takes what its owner knows before the slash of its constructor, and what a config says behind it:
`MLP(obs_shape, /, hidden_dims=...)` is made by `partial(MLP, hidden_dims=[64, 64])`, and so by what a config calls
`network: {class_path: MLP, init_args: {hidden_dims: [64, 64]}}`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch import nn

from rl_lightning.errors import ConfigError, RLError
from rl_lightning.ranges import check_ranges

Made = TypeVar("Made")


def make(factory: Callable[..., Made], kind: type[Made], name: str, *known: Any) -> Made:
    """What a factory makes of what its owner knows.

    Args:
        factory: What makes it.
        kind: What it must be.
        name: The argument that the factory was given as, for errors.
        known: What comes before the slash.
    """
    if factory is None:
        raise ConfigError(f"{name} is null; leave it out for the default, or name a class")
    if isinstance(factory, nn.Module) or not callable(factory):
        raise ConfigError(
            f"{name} is a made {type(factory).__name__}; give what makes it: a class, or a functools.partial of one"
        )
    cls = class_of(factory)
    if cls is not None:
        check_ranges(cls, settings_of(factory) or {}, f"{name}.")
    part = made_by(factory, name, *known)
    if not isinstance(part, kind):
        raise ConfigError(
            f"{name}: {name_of_factory(factory)} made a {type(part).__name__}; it must be a {kind.__name__}"
        )
    return part


def made_by(factory: Callable[..., Made], name: str, *known: Any) -> Made:
    """What a factory makes; an error that its constructor meets is told with its name and what it was given."""
    try:
        return factory(*known)
    except (RLError, MemoryError):
        raise
    except Exception as error:  # a class of the user's can raise anything
        given = ", ".join(f"{value!r:.40}" for value in known)
        kind = "" if isinstance(error, TypeError) else f"{type(error).__name__}: "
        why = (str(error).splitlines() or [""])[0]
        raise ConfigError(
            f"{name}: {name_of_factory(factory)} cannot be made of ({given}): {kind}{why}"
        ) from error


def class_of(factory: Any) -> type[Any] | None:
    """The class that a factory makes; None of a function."""
    if isinstance(factory, functools.partial):
        made_by_parser = (factory.func.__module__ or "").startswith("jsonargparse.")
        return class_of(factory.args[-1]) if made_by_parser and factory.args else class_of(factory.func)
    return factory if isinstance(factory, type) else None


def settings_of(factory: Any) -> dict[str, Any] | None:
    """Every argument behind the slash by name, defaults too; None of a function and of what gives some by position."""
    cls = class_of(factory)
    if cls is None or factory is cls:
        return None if cls is None else defaults_of(cls)
    by_position = factory.args if factory.func is cls else ()
    return None if by_position else defaults_of(cls) | factory.keywords


def defaults_of(cls: type[Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(cls).parameters.values()
    except ValueError:  # a class written in C has none to look at
        return {}
    return {
        p.name: p.default for p in parameters if p.default is not p.empty and p.kind is not p.POSITIONAL_ONLY
    }


def name_of_factory(factory: Callable[..., Any]) -> str:
    source = class_of(factory) or factory
    return getattr(source, "__name__", type(source).__name__)
