"""A model or data class in another's place: a subclass keeps its parent's settings, others say what is dropped."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from rl_lightning import distributed
from rl_lightning.algorithms.rl_module import RLModule
from rl_lightning.artifacts import find_class
from rl_lightning.datamodules.bases.rl_data import RLData
from rl_lightning.errors import RLError
from rl_lightning.runs.config.compose import FORMER, Config, merge


def inherit_settings(config: Config) -> Config:
    """The config with its swapped classes settled; needs the classes, so it comes after the imports."""
    result = dict(config)
    for group in ("model", "data"):
        if isinstance(result.get(group), dict) and FORMER in result[group]:
            result[group] = settled(result[group])
    return result


def settled(spec: Config) -> Config:
    """A class with what it takes over from the one that it replaced."""
    own = {key: value for key, value in spec.items() if key != FORMER}
    former = spec[FORMER]
    if not isinstance(former, dict) or not isinstance(former.get("init_args", {}), dict):
        return own
    former = settled(former) if FORMER in former else former
    former_arguments = former.get("init_args", {})
    new, old = known(own.get("class_path")), known(former.get("class_path"))
    if new is None:
        return own  # the parser says why it is refused
    accepted = accepts(new) if old is not None and issubclass(new, old) else set()
    arguments = {name: value for name, value in former_arguments.items() if name in accepted}
    own_arguments = own.get("init_args", {})
    dropped = [name for name in former_arguments if name not in arguments and name not in own_arguments]
    if dropped and distributed.is_rank_zero():
        word = str(former.get("class_path")).rpartition(".")[2]
        print(f"dropped with the former class {word}: {', '.join(map(str, dropped))}", file=sys.stderr)
    return merge({**own, "init_args": arguments}, {"init_args": own_arguments}) if arguments else own


def known(class_path: Any) -> type[Any] | None:
    """A class of ours, or of a package that the user allowed, by its path or, once it is imported, its short name."""
    for base in (RLModule, RLData) if "." not in str(class_path) else ():
        for cls in descendants(base):
            if cls.__name__ == class_path:
                return cls
    try:
        return find_class(str(class_path), "this config")
    except (RLError, ImportError, ValueError):
        return None


def descendants(cls: type[Any]) -> Iterator[type[Any]]:
    for child in cls.__subclasses__():
        yield child
        yield from descendants(child)


def accepts(cls: type[Any]) -> set[str]:
    """Arguments of a constructor; one that hands on any keywords takes its parent's, too."""
    names: set[str] = set()
    for base in cls.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        parameters = list(inspect.signature(base.__init__).parameters.values())[1:]  # type: ignore[misc]
        names |= {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return names
