"""Exact snapshots of one wrapped env: every layer's own attributes, written as plain values.

Saved: whatever is plain (codec.py), MuJoCo and the Atari emulator (simulators.py), MiniGrid's objects, envs
held by an env, and any layer with `get_state() -> dict` and `set_state(dict)`. A layer that holds anything
else, such as a Box2D world, cannot be saved, and with it the env: it starts a new episode instead.
"""

from __future__ import annotations

import functools
import struct
import types
import zlib
from typing import Any

import gymnasium
import numpy as np

from rl_lightning.envs.snapshot.codec import (
    Decoder,
    Encoder,
    MismatchError,
    Node,
    UnsaveableError,
    find_class,
)
from rl_lightning.envs.snapshot.simulators import (
    load_ale,
    load_mj_data,
    load_mj_model,
    save_ale,
    save_mj_data,
    save_mj_model,
)

# Attributes that say how an env was made, not where it is.
_SETTINGS = {"spec", "metadata", "_metadata", "_cached_spec", "_saved_kwargs", "render_mode", "unsaved"}
_SETTINGS |= {"_ezpickle_args", "_ezpickle_kwargs", "_max_episode_steps"}
_TABLES = {"gymnasium.envs.toy_text": {"P", "desc", "initial_state_distrib", "_cliff"}}
# Objects that never change, or matter to pictures for people only.
_CONSTANT_MODULES = (
    "pygame",
    "logging",
    "gymnasium.envs.registration",
    "gymnasium.envs.mujoco.mujoco_rendering",
    "gymnasium_robotics.utils",
    "gymnasium_robotics.envs.maze.maze",
    "rl_lightning.envs.spaces",
)
_IN_PLACE = ("dm_control.rl.control", "dm_control.suite.")  # objects that are walked like envs
_REBUILT = ("minigrid.", "gymnasium.wrappers.utils")  # objects made anew, without calling anything of theirs
_STRICT = ("gymnasium.", "gymnasium_robotics.", "rl_lightning.")  # arrays here never change their shape
_SIMULATORS = {"MjModel": (save_mj_model, load_mj_model), "MjData": (save_mj_data, load_mj_data)}
_SIMULATORS["ALEInterface"] = (save_ale, load_ale)  # type: ignore[assignment]
KEEP = {"keep": None}


def save_layers(
    layers: list[gymnasium.Env[Any, Any]], secrets: dict[str, str] | None = None
) -> dict[str, Any]:
    """The state of an env's layers, outermost first; secrets that it was made with stay out, by their names."""
    encoder = LayerEncoder(list(layers), secrets)
    return {"layers": [[type(layer).__qualname__, encoder.layer(layer)] for layer in layers]}


def load_layers(
    layers: list[gymnasium.Env[Any, Any]], state: dict[str, Any], secrets: dict[str, str] | None = None
) -> None:
    """Put the layers of an env that was reset once into a saved state."""
    decoder = LayerDecoder(list(layers), secrets)
    try:
        if set(state) != {"layers"}:
            raise MismatchError(f"keys {sorted(map(str, state))} instead of 'layers'")
        names = [name for name, _ in state["layers"]]
        present = [type(layer).__qualname__ for layer in layers]
        if names != present:
            raise MismatchError(f"layers {' > '.join(map(str, names))} instead of {' > '.join(present)}")
        for layer, (_, node) in zip(layers, state["layers"], strict=True):
            decoder.layer(layer, node)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise MismatchError(f"{type(error).__name__}: {error}") from error
    except (zlib.error, struct.error, RecursionError) as error:
        raise MismatchError(str(error)) from error


def speaks_for_itself(layer: Any) -> bool:
    return callable(getattr(type(layer), "get_state", None)) and callable(
        getattr(type(layer), "set_state", None)
    )


def state_names(owner: Any) -> list[str]:
    """Attributes that are, or may be, state."""
    left_out = set(_SETTINGS)
    for base in type(owner).__mro__:
        if base.__module__.startswith("rl_lightning."):  # a user's `constants` may mean anything
            left_out.update(vars(base).get("constants", ()))
    if isinstance(owner, gymnasium.Wrapper):
        left_out.add("env")
    for prefix, names in _TABLES.items():
        if any(base.__module__.startswith(prefix) for base in type(owner).__mro__):
            left_out |= names
    if not hasattr(owner, "__dict__"):
        raise UnsaveableError(f"a {type(owner).__qualname__} without attributes of its own")
    return [name for name in vars(owner) if name not in left_out]


def space_parts(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    """The space and all spaces in it: each has a generator of its own."""
    parts = [space]
    for value in vars(space).values():
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else [value]
        for part in inner:
            if isinstance(part, gymnasium.Space):
                parts += space_parts(part)
    return parts


def is_constant(value: Any, known: Any) -> bool:
    """Whether a value says what an env can do rather than where it is."""
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType | np.ufunc | np.dtype):
        return True
    if isinstance(value, types.FunctionType):
        return value.__closure__ is None
    if isinstance(value, types.MethodType):
        return known(value.__self__)
    if isinstance(value, functools.partial):
        return False
    if isinstance(value, list | tuple | dict):
        inner = list(value.values()) if isinstance(value, dict) else value
        return bool(inner) and all(_is_picture(item) for item in inner)
    return type(value).__module__.startswith(_CONSTANT_MODULES)


def _is_picture(value: Any) -> bool:
    return type(value).__module__.startswith("pygame")


class LayerEncoder(Encoder):
    """Encodes layers, and what they hold."""

    def layer(self, layer: Any) -> Node:
        if not speaks_for_itself(layer):
            return {"attributes": self.attributes(layer)}
        common = [name for name in ("_np_random", "action_space", "observation_space") if name in vars(layer)]
        return {"own": [self.encode(layer.get_state()), self.attributes(layer, common)]}

    def attributes(self, owner: Any, names: list[str] | None = None) -> dict[str, Node]:
        saved = {}
        for name in state_names(owner) if names is None else names:
            try:
                saved[name] = self.attribute(vars(owner)[name])
            except UnsaveableError as error:
                raise UnsaveableError(f"{type(owner).__qualname__}.{name} is {error}") from error
        return saved

    def attribute(self, value: Any) -> Node:
        """A value with a place of its own, which can be changed where it is."""
        if id(value) in self.numbers:
            return self.encode(value)
        kind = type(value)
        if isinstance(value, gymnasium.Space):
            self.number(value)
            return {"space": [self.encode(vars(part).get("_np_random")) for part in space_parts(value)]}
        if kind.__name__ in _SIMULATORS and kind.__module__.startswith(("mujoco", "ale_py")):
            self.number(value)
            return {"simulator": [kind.__name__, _SIMULATORS[kind.__name__][0](value)]}
        if hasattr(value, "_reload_from_data") and kind.__module__.startswith("dm_control"):  # a Physics
            self.number(value)
            return {"physics": [save_mj_model(value.model.ptr), save_mj_data(value.data.ptr)]}
        if isinstance(value, gymnasium.Env) or kind.__module__.startswith(_IN_PLACE):
            self.number(value)
            return {"object": [kind.__qualname__, self.attributes(value)]}
        if is_constant(value, lambda owner: id(owner) in self.numbers):
            return dict(KEEP)
        return self.encode(value)

    def special(self, value: Any) -> Node:
        kind = type(value)
        if kind.__module__.startswith(_REBUILT) and not isinstance(value, gymnasium.Env):
            self.number(value)
            attributes = {name: self.encode(item) for name, item in vars(value).items()}
            return {"new": [kind.__module__, kind.__qualname__, attributes]}
        return super().special(value)


class LayerDecoder(Decoder):
    """Puts layers back into a saved state."""

    def layer(self, layer: Any, node: Node) -> None:
        ((kind, body),) = node.items()
        if kind != ("own" if speaks_for_itself(layer) else "attributes"):
            raise MismatchError(f"a state of kind {kind!r} for {type(layer).__qualname__}")
        if kind == "attributes":
            return self.attributes(layer, body)
        state, common = body
        decoded = self.decode(state)
        self.attributes(layer, common, list(common))
        return layer.set_state(decoded)

    def attributes(self, owner: Any, saved: dict[str, Node], names: list[str] | None = None) -> None:
        own, kind = vars(owner), type(owner)
        missing = set(state_names(owner) if names is None else names) - set(saved)
        if missing:
            raise MismatchError(f"no value for {kind.__qualname__}.{min(missing)}")
        for name, node in saved.items():
            if name not in own and (not name.isidentifier() or hasattr(kind, name)):
                raise MismatchError(f"{kind.__qualname__} has no attribute {name!r}")
            current = own.get(name)
            value = self.decode(node, current)
            if isinstance(current, np.ndarray) and kind.__module__.startswith(_STRICT):
                shape = np.shape(value)  # of a tuple, too: MountainCar's state is one or the other
                if shape != current.shape:
                    raise MismatchError(f"{kind.__qualname__}.{name} of {shape} instead of {current.shape}")
            if node != KEEP:
                own[name] = value

    def special(self, kind: Any, body: Any, current: Any) -> Any:
        if kind == "keep":
            return current
        if kind == "new":
            return self.rebuild(*body)
        self.add(current)
        if kind == "space":
            for part, node in zip(space_parts(current), body, strict=True):
                vars(part)["_np_random"] = self.decode(node)
        elif kind == "simulator":
            name, state = body
            if type(current).__name__ != name:
                raise MismatchError(f"a {name} instead of a {type(current).__name__}")
            _SIMULATORS[name][1](current, state)
        elif kind == "physics":
            load_mj_model(current.model.ptr, body[0])
            load_mj_data(current.data.ptr, body[1])
        elif kind == "object":
            name, attributes = body
            if type(current).__qualname__ != name:
                raise MismatchError(f"a {name} instead of a {type(current).__qualname__}")
            self.attributes(current, attributes)
        else:
            return super().special(kind, body, current)
        return current

    def rebuild(self, module: str, name: str, attributes: dict[str, Node]) -> Any:
        """An object of a known package, made without running its constructor."""
        if not module.startswith(_REBUILT):
            raise MismatchError(f"an object of {module}")
        kind = find_class(module, name, object)
        if issubclass(kind, gymnasium.Env | type):
            raise MismatchError(f"an object of {module}.{name}")
        instance = self.add(object.__new__(kind))
        for key, node in attributes.items():
            vars(instance)[key] = self.decode(node)
        return instance
