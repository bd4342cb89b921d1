"""`--model.network.hidden_dims [64,64]` where no network is chosen: it is set of the one that the model makes itself.

Which one that is stands in the constructor of the model, as `network or partial(MLP, hidden_dims=[256, 256])`, or by
itself: `network or MLP`; the source is read.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.compose import Config
from rl_lightning.runs.config.keys import full_key

_SPEC = ("class_path", "init_args", "dict_kwargs")


def choose_defaults(config: Config, flags: list[str]) -> list[str]:
    """The flags, with those before them that choose the default classes whose arguments they set."""
    keys = [flag[2:].partition("=")[0].replace(".init_args", "") for flag in flags]
    chosen = {
        key.removesuffix(".class_path"): flag.partition("=")[2] for key, flag in zip(keys, flags, strict=True)
    }
    added: dict[str, None] = {}
    for key in keys:
        for flag in _defaults_on_the_way(config, key.split("."), chosen):
            added[flag] = None
    return [*added, *flags]


def _defaults_on_the_way(config: Config, words: list[str], chosen: dict[str, str]) -> Iterator[str]:
    """Flags for each class that a dotted key passes through and nobody chose."""
    head = config.get(words[0])
    if words[0] not in ("model", "data") or not isinstance(head, dict):
        return
    owner = catalog.find(str(head.get("class_path")))
    for depth in range(2, len(words)):
        place = ".".join(words[:depth])
        if owner is None or place in chosen or _stands_in(config, place) or words[depth] in _SPEC:
            return
        default = default_of(owner.path, words[depth - 1])
        if default is None or _belongs_to_another(owner, words[depth - 1], default[0], words[depth]):
            return
        owner = catalog.find(default[0])
        yield f"--{place}={default[0]}"
        for name, value in default[1].items():
            yield f"--{place}.{name}={value if isinstance(value, str) else json.dumps(value)}"


def _stands_in(config: Config, key: str) -> bool:
    inside: Any = config
    for word in full_key(config, key):
        inside = inside.get(word) if isinstance(inside, dict) else None
    return inside is not None


def _belongs_to_another(owner: catalog.Entry, name: str, default: str, argument: str) -> bool:
    """Whether another class that may stand there has an argument that the default lacks: it has to be named."""
    if argument in catalog.argument_names(default):
        return False
    types = [option.type for option in catalog.all_options(owner) if option.name == name]
    kinds = [other for kind in types for word in catalog.kinds_in(kind) for other in catalog.kind_of(word)]
    return any(argument in catalog.argument_names(other.path) for other in kinds)


@functools.cache
def default_of(class_path: str, argument: str) -> tuple[str, dict[str, Any]] | None:
    """Class and arguments that stand for an argument which is not given; None where the source says none."""
    entry = catalog.find(class_path)
    if entry is None:
        return None
    for constructor in _constructors(entry):
        for class_name, arguments in map(_made_of, _alternatives(constructor, argument)):
            default = catalog.find(class_name)
            if default is not None:
                return default.path, arguments
    return None


def _constructors(entry: catalog.Entry) -> Iterator[ast.FunctionDef]:
    """`__init__` of a class, else of the base that has one."""
    spec = importlib.util.find_spec(entry.module)
    tree = ast.parse(Path(str(spec.origin)).read_text(encoding="utf-8")) if spec else ast.Module([], [])
    bodies = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == entry.name]
    own = [
        node
        for body in bodies
        for node in body
        if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    ]
    yield from own
    for base in entry.bases if not own else ():
        parent = catalog.find(base)
        if parent is not None and parent is not entry:
            yield from _constructors(parent)


def _alternatives(constructor: ast.FunctionDef, argument: str) -> Iterator[ast.expr]:
    """What stands behind `argument or`."""
    for node in ast.walk(constructor):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            first, second = node.values[0], node.values[-1]
            if isinstance(first, ast.Name) and first.id == argument:
                yield second


def _made_of(node: ast.expr) -> tuple[str, dict[str, Any]]:
    """Name and plain arguments of `Name`, `Name(...)` and `partial(Name, ...)`."""
    if not isinstance(node, ast.Call):
        return ast.unparse(node), {}
    partly = ast.unparse(node.func) == "partial"
    name = ast.unparse(node.args[0] if partly else node.func)
    return name, _plain_arguments(node, [] if partly else catalog.argument_names(name))


def _plain_arguments(call: ast.Call, names: list[str]) -> dict[str, Any]:
    """The arguments of a call that are written out as values."""
    pairs = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
    plain = {}
    for name, node in pairs:
        try:
            plain[str(name)] = ast.literal_eval(node)
        except ValueError:
            continue  # it depends on other arguments; the class's own default stands
    return plain
