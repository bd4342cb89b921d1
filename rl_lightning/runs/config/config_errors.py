"""Turns jsonargparse's long union dumps into one line: which key, what is wrong, what it might have been."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rl_lightning.runs.config import catalog
from rl_lightning.runs.config.aliases import Place, advice
from rl_lightning.runs.store.names import did_you_mean

_TYPE = re.compile(r"<class '([\w.]+)'>")
_FACTORY = re.compile(r"Type \S.*? expects a function or a callable class: ")
_ON_THE_WAY = re.compile(
    r"""(?:Parser key ["']([^"']+)["']|Problem with given class_path '([^']+)'):\s*(.*)"""
)
_GROUP_CLASSES = {"run": "RunConfig", "log": "LogConfig"}


class Known(NamedTuple):
    """What is known of the config beside the complaint.

    Args:
        bases: Base class of a key (model, data).
        options: Every top-level option.
        classes: class_path of model and data.
    """

    bases: Mapping[str, type] = {}
    options: Sequence[str] = ()
    classes: Mapping[str, str] = {}


@dataclass(frozen=True)
class Leaf:
    """One complaint, and where it stands.

    Args:
        path: Keys that lead to it.
        owner: class_path whose arguments were being read.
        text: The complaint.
        holder: class_path of the class that has the owner as an argument.
    """

    path: tuple[str, ...]
    owner: str
    text: str
    holder: str = ""


def explain(
    message: str,
    base_classes: Mapping[str, type] | None = None,
    options: Sequence[str] = (),
    classes: Mapping[str, str] | None = None,
) -> str:
    """One line for a parsing error.

    Args:
        message: What jsonargparse said.
        base_classes: Base class of a key (model, data), to list classes of the user's own as well.
        options: Every top-level option, for the nearest one.
        classes: class_path of model and data, for what other libraries call their options.
    """
    known = Known(base_classes or {}, options, classes or {})
    leaves = _leaves(message)
    best = min(leaves, key=_rank) if leaves else Leaf((), "", message.strip() or "cannot be read")
    text, where = best.text, ".".join(best.path)
    for pattern, answer in _ANSWERS:
        match = pattern.search(text)
        if match:
            return answer(match, best, known)
    if text.startswith("Expected"):
        return _expected(best, leaves, message)
    return f"{where}: {text}" if where else text


def _leaves(message: str) -> list[Leaf]:
    """Reads the indented message as a tree: keys and classes on the way down, complaints at the ends."""
    leaves: list[Leaf] = []
    stack: list[tuple[int, str, str]] = []  # indent, kind, value
    for line in named_factories(message).splitlines():
        body = line.lstrip()
        if not body:
            continue
        indent = len(line) - len(body)
        if body.startswith("- "):
            body, indent = body[2:], indent + 1
        while stack and stack[-1][0] >= indent:
            stack.pop()
        while match := _ON_THE_WAY.match(body):
            key, owner, body = match.groups()
            stack.append((indent, "key", key) if key else (indent, "owner", owner))
            indent += 1
        if body and not re.match(
            r"(Does not validate|Subtypes:|Errors:|Given value|Subclass types expect|a class path|a dict)",
            body,
        ):
            path = tuple(value for _, kind, value in stack if kind == "key")
            owners = [value for _, kind, value in stack if kind == "owner"]
            holder, owner = ["", "", *owners][-2:]
            leaves.append(Leaf(path, owner, body, holder))
    return leaves


def named_factories(message: str) -> str:
    """What is said of a class that a factory makes in the words for any other class."""
    while match := _FACTORY.search(message):
        owner = re.search(r"class_path='([^']+)'", message[match.end() :])
        words = f"Problem with given class_path '{owner.group(1)}': " if owner else ""
        message = message[: match.start()] + words + message[match.end() :]
    return re.sub(r"\. Got value: Namespace\(.*", "", message)


def _rank(leaf: Leaf) -> tuple[int, int]:
    """A denied import first, then anything definite, then mismatched types; the deepest of its kind."""
    if "is not allowed" in leaf.text:
        kind = 0
    elif leaf.text.startswith("Not a valid subclass"):
        kind = 3
    elif any(pattern.search(leaf.text) for pattern, _ in _ANSWERS):
        kind = 1
    elif "NoneType" in leaf.text or leaf.text.startswith("Expected a path"):
        kind = 4
    else:
        kind = 2
    return kind, -len(leaf.path)


def _denied(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    package = match.group(1).split(".")[0]
    foreign = package not in sys.stdlib_module_names and package not in ("torch", "lightning", "numpy")
    hint = f"; if it is a class of your own, add: --import {package}" if foreign else ""
    return f"{_at(leaf)}'{match.group(1)}' may not be named in a config{hint}"


def _no_option(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    name = match.group(1)
    if not leaf.owner:
        return _no_flag(name, known)
    short, names = leaf.owner.rpartition(".")[2], catalog.argument_names(leaf.owner)
    if not names and (_parts(leaf)[1] or _kinds(short)):
        return _choose(short, leaf)
    return _refusal(short, name, names, ".".join(leaf.path), known)


def _no_group_option(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    group, name = match.groups()
    where = ".".join((*leaf.path, group))
    return _refusal(where, name, _group_names(group, leaf.owner), where, known)


def _unrecognized(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    name = match.group(1)
    if leaf.owner and "." in name:
        group, _, last = name.rpartition(".")
        where = ".".join((*leaf.path, group))
        return _refusal(where, last, _group_names(group, leaf.owner), where, known)
    return _no_flag(name, known)


def _no_flag(name: str, known: Known) -> str:
    group, _, last = name.rpartition(".")
    if group:
        parts = [option.rpartition(".") for option in known.options]
        siblings = [name for parent, _, name in parts if parent == group]
        return _refusal(group, last, siblings, group, known)
    hint = advice(name, Place(known.classes)) or did_you_mean(name, known.options)
    return f"there is no option '--{name}'{hint}"


def _refusal(who: str, name: str, names: list[str], path: str, known: Known) -> str:
    """Another library's word is told first, then what is near."""
    hint = advice(f"{path}.{name}", Place(known.classes, path, names)) or did_you_mean(name, names)
    return f"{who} has no option '{name}'{hint}"


def _unknown_class(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    name, key = match.group(1), leaf.path[-1] if leaf.path else ""
    if key in known.bases:
        choices = [cls.__name__ for cls in _subclasses(known.bases[key])]
        choices += [
            entry.name for entry in (catalog.algorithms() if key == "model" else catalog.data_modules())
        ]
    else:
        choices = _fitting(leaf) or list(catalog.registry())
    hint = did_you_mean(name, choices) or _listing(choices)
    return f"{_at(leaf)}there is no class '{name}'{hint} (a class of your own needs --import PACKAGE)"


def _fitting(leaf: Leaf) -> list[str]:
    """Our classes that an argument may be."""
    holder = catalog.find(leaf.holder or leaf.owner)
    options = catalog.all_options(holder) if holder and leaf.path else []
    types = [option.type for option in options if option.name == leaf.path[-1]]
    kinds = [kind for annotation in types for kind in catalog.kinds_in(annotation)]
    fitting = {entry.name for kind in kinds for entry in catalog.kind_of(kind) if entry.name not in kinds}
    return sorted(fitting)


def _listing(choices: list[str]) -> str:
    return f"; choose {', '.join(choices)}" if 1 < len(choices) <= 8 else ""


def _ambiguous(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    name, paths = match.group(1), match.group(2).split(", ")
    ours = _fitting(leaf)
    hint = did_you_mean(name, ours) or _listing(ours)
    return f"{_at(leaf)}no class of ours is called '{name}'{hint}; torch's is {paths[0].rstrip('.')}"


def _wrong_class(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    return f"{_at(leaf)}{match.group(1) or 'this class'} is not a subclass of {match.group(2).rpartition('.')[2]}"


def _no_class(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    return _choose(match.group(1).rpartition(".")[2], leaf)


def _choose(kind: str, leaf: Leaf) -> str:
    """Arguments were given, but not for which class of a kind."""
    factory, parts = _parts(leaf)
    kind, names = (factory, parts) if parts else (kind, _kinds(kind))
    example = f"; first choose one: --{'.'.join(leaf.path)} {names[0]}" if names and leaf.path else ""
    listing = f" of {', '.join(names)}" if names else ""
    return f"{_at(leaf)}takes a {kind}, one{listing}{example}" if names else f"{_at(leaf)}takes a {kind}"


def _kinds(base: str) -> list[str]:
    return [entry.name for folder in catalog.FOLDERS for entry in catalog.children(folder, base)]


def _parts(leaf: Leaf) -> tuple[str, list[str]]:
    """Name of what an argument takes that takes what makes a part, and the parts of ours that it may be."""
    holder = catalog.find(leaf.holder)
    types = [o.type for o in catalog.all_options(holder) if o.name == leaf.path[-1]] if holder else []
    names = [entry.name for annotation in types for entry in catalog.parts_of(annotation)]
    return (types[0].partition(" ")[0] if names else ""), names


def _no_mapping(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    return f"{_at(leaf)}expected `key: value` settings, got {match.group(1)[:40]}"


def _required(match: re.Match[str], leaf: Leaf, known: Known) -> str:
    names = match.group(1)
    if not leaf.owner and re.search(r"\b(model|data)\b", names):
        return (
            f"the config has no {names.replace(', ', ' and no ')}; start from a shipped one: rl list configs"
        )
    if not leaf.owner:
        return f"missing: '{names}'"
    holder = catalog.find(leaf.owner)
    options = {option.name: option for option in (catalog.all_options(holder) if holder else [])}
    needed = [options.get(name.strip().rpartition(".")[2]) for name in names.split(",")]
    who = leaf.owner.rpartition(".")[2]
    if not all(needed):
        return f"{who} needs '{names}'"
    asked = [option for option in needed if option is not None]
    dotted = [".".join((*leaf.path, option.name)) for option in asked]
    meanings = [option.doc.partition(".")[0].partition(";")[0].partition(":")[0] for option in asked]
    what = " and ".join(
        f"{key} ({doc[:1].lower()}{doc[1:]})" for key, doc in zip(dotted, meanings, strict=True)
    )
    typed = [
        f"--{key} {'RUN' if o.type == 'Artifact' else '...'}" for key, o in zip(dotted, asked, strict=True)
    ]
    return f"{who} needs {what}: {' '.join(typed)}"


_ANSWERS = [
    (re.compile(r"Importing '([^']+)' is not allowed"), _denied),
    (re.compile(r"^Option '([^']+)' is not accepted"), _no_option),
    (re.compile(r"^Group '([^']+)' does not accept option '([^']+)'"), _no_group_option),
    (re.compile(r"^unrecognized arguments: --([\w.\-+]+)"), _unrecognized),
    (re.compile(r"Expected a dot import path string: (.+)"), _unknown_class),
    (re.compile(r"Unexpected import path format: (.+)"), _unknown_class),
    (re.compile(r"[Ii]mport path (\S+ )?does not correspond to a subclass of (\S+)"), _wrong_class),
    (re.compile(r"Expected '(\S+)' to be a subclass of <class '(\S+)'>"), _wrong_class),
    (re.compile(r"Multiple subclasses with name (\w+)\. .*?: (.*)"), _ambiguous),
    (re.compile(r"Not a valid subclass of (\w+)"), _no_class),
    (re.compile(r"Expected an instantiatable class, but ([\w.]+) is abstract"), _no_class),
    (re.compile(r"""Unable to load config ["'](.*?)["']"""), _no_mapping),
    (re.compile(r"the following arguments are required: (.+)"), _required),
    (re.compile(r"""(?:Key|Option) ["']([\w.]+)["'] is required"""), _required),
]


def _expected(best: Leaf, leaves: list[Leaf], message: str) -> str:
    """All types that one place would have taken, on one line."""
    rivals = [leaf for leaf in leaves if leaf.path == best.path and leaf.text.startswith("Expected")]
    types: list[str] = []
    for leaf in rivals:
        types += [name.rpartition(".")[2].replace("NoneType", "null") for name in _TYPE.findall(leaf.text)]
    match = re.search(r"Got value: (.*)", best.text) or re.search(r"Given value: (.*)", message)
    value = match.group(1).strip()[:80] if match else "something else"
    nested = re.match(r"NestedArg\(key='([^']*)', val=(.*)\)", value)
    value = nested.group(2) if nested else value
    if not types:
        return f"{_at(best)}{best.text}"
    flat = "list" in types and re.fullmatch(r"[\w.+-]+(,\s*[\w.+-]+)*", value)
    hint = f"; write it as a list: '[{value}]'" if flat else ""
    value = "true, which an option without a value means" if value == "True" else value
    return f"{_at(best)}expected {' or '.join(dict.fromkeys(types))}, got {value}{hint}"


def _at(leaf: Leaf) -> str:
    return f"{'.'.join(leaf.path)}: " if leaf.path else ""


def _group_names(group: str, owner: str) -> list[str]:
    """Fields of a dataclass that is an argument of `owner`, or one of the top-level groups."""
    kind = _GROUP_CLASSES.get(group, "")
    if owner:
        entry = catalog.find(owner)
        option = next((o for o in catalog.all_options(entry) if o.name == group), None) if entry else None
        kind = (
            next((word for word in re.findall(r"\w+", option.type) if catalog.find(word)), "")
            if option
            else ""
        )
    elif group == "trainer":
        kind = "lightning.pytorch.Trainer"
    entry = catalog.find(kind) or catalog.classes("cli").get(kind)
    return [option.name for option in catalog.all_options(entry)] if entry else catalog.argument_names(kind)


def _subclasses(cls: type) -> list[type]:
    direct = cls.__subclasses__()
    return direct + [deeper for child in direct for deeper in _subclasses(child)]
