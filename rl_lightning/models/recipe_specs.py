"""Recipes written down as plain values, and read again: what an artifact needs to make a network anew."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from rl_lightning.artifacts import find_class
from rl_lightning.errors import ConfigError
from rl_lightning.nn.torso import Network

T = TypeVar("T")


def as_network_recipe(network: Network | dict[str, Any] | None) -> Network | None:
    """A recipe as it is, or read from what `written` wrote down."""
    return recipe_from_spec(network, Network, "network") if isinstance(network, dict) else network  # type: ignore[type-abstract]


def network_args(**networks: Network | None) -> dict[str, Any]:
    """Those that were given and can be written down, by name, as an artifact keeps them."""
    return {
        name: recipe_spec(network)
        for name, network in networks.items()
        if network is not None and rewritable(network)
    }


def recipe_spec(recipe: Any) -> dict[str, Any]:
    """A recipe whose arguments are kept under their own names, as plain values."""
    cls = type(recipe)
    plain: dict[str, Any] = {}
    for name in inspect.signature(cls).parameters:
        value = getattr(recipe, name)
        plain[name] = list(value) if isinstance(value, tuple) else value
    return {"class_path": f"{cls.__module__}.{cls.__qualname__}", "init_args": plain}


def rewritable(recipe: Any) -> bool:
    """Whether `written` can tell all of it: every argument kept under its own name, as a plain value."""
    missing = object()
    values = [getattr(recipe, name, missing) for name in inspect.signature(type(recipe)).parameters]
    return all(_plain(value) for value in values)


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str)


def recipe_from_spec(spec: dict[str, Any], base: type[T], what: str) -> T:
    """The recipe that `written` wrote down."""
    recipe_class = find_class(str(spec["class_path"]), what)
    if not issubclass(recipe_class, base):
        raise ConfigError(f"{spec['class_path']} is not a {what}")
    return recipe_class(**spec["init_args"])
