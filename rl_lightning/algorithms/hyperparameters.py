"""What a module was made with: kept by the constructor, checked, saved with its weights, and made again from them."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, get_args, get_origin

import torch

from rl_lightning.errors import ConfigError, ResumeError, name_arguments
from rl_lightning.io.trust import why_not_loaded
from rl_lightning.models.described import (
    classes_in,
    describe,
    hints_of,
    is_union,
    lies_in_ours,
    missing_in,
    path_of,
    rebuild,
    trusted_class,
)
from rl_lightning.ranges import check_ranges

POSITIONAL = "*"  # where a constructor takes any positional arguments: all of them, in order


class Constructed(ABCMeta):
    """Errors of a constructor name its own arguments, unless it was called for a config."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except ConfigError as error:
            name_arguments(error, own_signature(cls).parameters, "model")
            raise

    @property
    def __signature__(cls) -> inspect.Signature:
        return own_signature(cls)


class Rebuildable(metaclass=Constructed):
    """Keeps the arguments of any constructor below it, and saves them with the weights as plain values."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        instance = super().__new__(cls)
        arguments = bound(cls, args, kwargs)
        if arguments is not None:
            check_ranges(cls, arguments)
            check_objects(cls, arguments)
            # nn.Module's own __setattr__ works only after its constructor
            object.__setattr__(instance, "_arguments", with_defaults(cls, arguments))
        return instance

    @property
    def hyper_parameters(self) -> dict[str, Any]:
        """The constructor's arguments as plain values; what no file can name is marked "given in Python"."""
        arguments: dict[str, Any] = vars(self).get("_arguments", {})
        return {name: describe(value) for name, value in arguments.items()}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds the class and its arguments: `load_from_checkpoint` needs nothing else."""
        above = getattr(super(), "on_save_checkpoint", None)
        if above is not None:
            above(checkpoint)
        checkpoint["class_path"] = path_of(type(self))
        checkpoint["hyper_parameters"] = self.hyper_parameters

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | Path,
        map_location: str | torch.device = "cpu",
        strict: bool = True,
        **overrides: Any,
    ) -> Self:
        """The module of a checkpoint, with its weights. Nothing that the file contains is run.

        Args:
            checkpoint_path: A file that a Trainer saved, a run's best.ckpt, or the folder of one of its checkpoints.
            map_location: Where the weights go.
            strict: The weights must fit exactly.
            overrides: Arguments of the constructor that differ, and those that were given in Python: functions,
                networks, arrays.
        """
        place, state = read_checkpoint(Path(checkpoint_path))
        module_class = class_of(state, cls, place)
        saved = {name: value for name, value in state["hyper_parameters"].items() if name not in overrides}
        if asked := {name: gone for name, value in saved.items() if (gone := next(missing_in(value), None))}:
            again = ", ".join(f"{name}=... (it was {gone})" for name, gone in asked.items())
            raise ConfigError(f"{place}: what was given in Python is in no file; give it again: {again}")
        hints = hints_of(module_class)
        arguments = {name: rebuild(value, str(place), hints.get(name, Any)) for name, value in saved.items()}
        positional = arguments.pop(POSITIONAL, ())
        try:
            module = module_class(*positional, **arguments, **overrides)
        except TypeError as error:
            raise ConfigError(
                f"{place}: {module_class.__name__} cannot be made with what was saved ({error})"
            ) from None
        module.on_load_checkpoint(state)
        try:
            module.load_state_dict(state["state_dict"], strict=strict)
        except RuntimeError as error:
            line = (str(error).splitlines()[1:2] or [str(error)])[0].strip()
            raise ResumeError(
                f"{place}: its weights do not fit this {module_class.__name__}: {line[:200]}"
            ) from None
        return module.to(map_location)


def check_objects(cls: type, arguments: dict[str, Any]) -> None:
    """Refuses a word where an object of ours is asked for (names of classes are for configs), what has such an object
    instead of it, and a made part where what makes it is asked for."""
    hints = hints_of(cls)
    for name, value in arguments.items():
        hint = hints.get(name, Any)
        kinds = tuple(kind for kind in classes_in(hint) or () if kind is not type(None))
        ours = bool(kinds) and all(lies_in_ours(kind.__module__) for kind in kinds)
        if isinstance(value, str) and ours:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise ConfigError(f"{name} is '{value[:40]}'; it must be an object: {wanted}")
        if ours and not isinstance(value, kinds) and isinstance(getattr(value, name, None), kinds):
            raise ConfigError(f"{name} is a {type(value).__name__}; give what it has: {name}=....{name}")
        if value is not None and not callable(value) and is_factory(hint):
            plain = isinstance(value, str | int | float | complex | list | dict | tuple)
            what = f"{value!r:.60}" if plain else f"a made {type(value).__name__}"
            raise ConfigError(
                f"{name} is {what}; it must be what makes one: a class, a functools.partial of one, or a function"
            )


def is_factory(hint: Any) -> bool:
    """Whether a hint asks for what makes a part: a Callable, or null."""
    parts = get_args(hint) if is_union(hint) else (hint,)
    wanted = [part for part in parts if part is not type(None)]
    return bool(wanted) and all(get_origin(part) is Callable for part in wanted)


def bound(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
    """The arguments by name; None where they do not fit (copies are made without; __init__ refuses wrong ones)."""
    signature = own_signature(cls)
    try:
        arguments = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return None
    if any(p.kind is p.VAR_POSITIONAL and arguments.get(p.name) for p in signature.parameters.values()):
        return {POSITIONAL: args, **kwargs}
    named: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            named[name] = value
    return named


def with_defaults(cls: type, arguments: dict[str, Any]) -> dict[str, Any]:
    """Defaults are saved, too: another version may have others."""
    if POSITIONAL in arguments:
        return arguments
    parameters = own_signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty} | arguments


def own_signature(cls: type) -> inspect.Signature:
    """The constructor's, without self."""
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def read_checkpoint(place: Path) -> tuple[Path, dict[str, Any]]:
    """The file and what it holds: tensors and plain values; anything else is refused, never run."""
    path = place.expanduser()
    path = path / "model.ckpt" if path.is_dir() else path
    if not path.is_file():
        raise ResumeError(f"{path}: no such checkpoint")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged or hostile file can raise nearly anything
        raise ResumeError(
            f"{path}: not a checkpoint that can be loaded safely ({why_not_loaded(error)})"
        ) from None
    if not isinstance(state, dict) or not isinstance(state.get("state_dict"), dict):
        raise ResumeError(f"{path}: holds no weights")
    if not isinstance(state.get("hyper_parameters"), dict):
        raise ResumeError(f"{path}: does not say what its module was made with (no hyper_parameters)")
    return path, state


def class_of(state: dict[str, Any], asked: type[Any], place: Path) -> type[Any]:
    """The class that was asked for or, where that is the base of all, the one that the checkpoint names."""
    if Rebuildable not in asked.__bases__:
        return asked
    kind = trusted_class(str(state.get("class_path")), str(place))
    if not issubclass(kind, asked):
        raise ResumeError(f"{place}: {kind.__name__} is not a subclass of {asked.__name__}")
    return kind
