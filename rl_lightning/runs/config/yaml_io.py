"""Reading one YAML file strictly: plain values, no repeated keys, bounds on what a hostile file can cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from rl_lightning.errors import ConfigError

MAX_BYTES = 1_000_000
MAX_DEPTH = 40
MAX_NODES = 50_000  # after aliases are followed, so that nine lines cannot stand for a billion values


class _Loader(yaml.SafeLoader):
    """SafeLoader in which 1e-3 is a number, 1e6 a whole one, a date is text and a key comes once."""


_NUMBERS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NUMBERS]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
# YAML 1.1 reads 1:30:00 as 5400, 010 as 8 and 1e-3 as text; nobody who writes a config means that.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
    ),
    list("-+0123456789."),
)
LARGEST_WHOLE = 1e16  # from here on Python itself writes floats with an exponent


def _number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    """A float; 1e6 and 2.5e5 are whole numbers, as whoever writes a budget means them."""
    value = loader.construct_yaml_float(node)
    whole = "e" in node.value.lower() and abs(value) < LARGEST_WHOLE and value.is_integer()
    return int(value) if whole else value


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        if key_node.tag == "tag:yaml.org,2002:merge":
            continue
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise ConfigError(
                f"line {key_node.start_mark.line + 1}: {key!r} is not a key; write it in quotes"
            )
        if key in seen:
            raise ConfigError(f"line {key_node.start_mark.line + 1}: key '{key}' is there twice")
        seen.add(key)
    loader.flatten_mapping(node)
    return {
        loader.construct_object(key_node, deep=True): loader.construct_object(value_node, deep=True)
        for key_node, value_node in node.value
    }


_Loader.add_constructor("tag:yaml.org,2002:float", _number)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ConfigError(f"{path}: is a folder, not a YAML file") from None
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES // 1000} kB, which no config is")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from None
    value = loads(text, str(path))
    if value is None:
        raise ConfigError(
            f"{path}: is empty; a config has at least one of: model, data, run, trainer, extends"
        )
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: holds a {type(value).__name__}, expected `key: value` lines")
    return value


def loads(text: str, where: str) -> Any:
    """The plain value written in `text`; `where` stands in front of any complaint."""
    try:
        _check_depth(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _check_size(node)
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {_reason(error)}") from None
    except ValueError as error:
        raise ConfigError(f"{where}: a value cannot be read ({error})") from None


def scalar(text: str) -> Any:
    """A single word as YAML reads it: 3, 1e-3, true, null; anything else stays text."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            return loader.construct_document(node) if isinstance(node, yaml.ScalarNode) else text
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError):
        return text


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigError(f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_size(root: yaml.Node) -> None:
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        key = id(node)
        if key in open_nodes:
            raise ConfigError(f"line {node.start_mark.line + 1}: an alias contains itself")
        if key not in sizes:
            open_nodes.add(key)
            children: list[yaml.Node] = []
            if isinstance(node, yaml.MappingNode):
                children = [child for pair in node.value for child in pair]
            elif isinstance(node, yaml.SequenceNode):
                children = node.value
            sizes[key] = 1 + sum(size(child) for child in children)
            open_nodes.discard(key)
        return sizes[key]

    if size(root) > MAX_NODES:
        raise ConfigError(f"stands for more than {MAX_NODES} values once its aliases are followed")


def _reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark else ""
    problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    if "'\\t'" in problem:
        return f"{line}a tab; YAML is indented with spaces"
    if "could not determine a constructor for the tag" in problem:
        tag = problem.split("'")[1] if "'" in problem else "?"
        return f"{line}tag '{tag}' is refused; a config holds plain values only"
    return f"{line}{problem}"
