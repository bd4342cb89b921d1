"""What the package offers, read from its source without importing it, so that `rl list` answers at once."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2]
# Folders whose public classes a config may name by their short name.
FOLDERS = (
    "algorithms", "datamodules", "functional", "nn", "optim", "models", "replay", "envs", "datasets", "clock",
    "rollout", "planning", "evolution", "behaviors", "trainer", "callbacks", "checkpoints", "loggers",
)  # fmt: skip
_IN_CONFIGS = {"EnvLike": "EnvConfig", "DatasetLike": "dict[str, float] | str"}
# What a config names where a factory is asked for, by the name of the factory's type.
_MADE_BY = {
    "Network": "Torso",
    "OptimizerFactory": "Optimizer",
    "DenoiserFactory": "Denoiser",
    "DensityFactory": "DensityModel",
    "RewardNetFactory": "RewardNet",
    "FrameWorldFactory": "NextFramePredictor",
    "BufferFactory": "ReplayBuffer",
    "SequenceReplayFactory": "SequenceReplay",
    "WindowsFactory": "Windows",
    "BehaviorFactory": "BehaviorPolicy",
    "SearchFactory": "CMAES",
    "CoreFactory": "Core",
    "DecoderFactory": "ObservationDecoder",
    "ScalarHeadFactory": "ScalarHead",
    "ContinueHeadFactory": "ContinueHead",
    "ActorHeadFactory": "ActorHead",
    "ReturnNormFactory": "PercentileNorm",
    "LatentWorldFactory": "LatentWorld",
}


@dataclass(frozen=True)
class Option:
    """One constructor argument.

    Args:
        name: As it is written in YAML and in flags.
        type: Its annotation, as in the source.
        default: Its default, as in the source; None if it must be given.
        doc: Its line in the docstring.
    """

    name: str
    type: str
    default: str | None
    doc: str


@dataclass(frozen=True)
class Entry:
    """A public class of the package, as its source describes it.

    Args:
        name: Short name.
        module: Dotted module.
        bases: Names of its base classes.
        doc: First paragraph of its docstring, on one line.
        options: Constructor arguments.
        is_part: Whether its owner tells it more than a config does, before the slash of its constructor; None
            where it has none of its own.
    """

    name: str
    module: str
    bases: tuple[str, ...]
    doc: str
    options: tuple[Option, ...] = field(default=())
    is_part: bool | None = None

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


@functools.cache
def classes(folder: str) -> dict[str, Entry]:
    """Public classes defined in one folder of the package, by short name."""
    entries: dict[str, Entry] = {}
    for file in sorted((PACKAGE / folder).rglob("*.py")):
        if "toys" in file.parts:  # envs go by id, never by class
            continue
        module = ".".join(("rl_lightning", *file.relative_to(PACKAGE).with_suffix("").parts))
        for node in ast.parse(file.read_text(encoding="utf-8"), str(file)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                entries[node.name] = _entry(node, module.removesuffix(".__init__"))
    return entries


@functools.cache
def registry() -> dict[str, str]:
    """Short class name -> full path, over all folders that a config may draw from."""
    return {name: entry.path for folder in FOLDERS for name, entry in classes(folder).items()}


def find(name: str) -> Entry | None:
    """The entry of a short name or path of ours; a package may hand on what its modules define."""
    package, _, short = name.rpartition(".")
    for folder in FOLDERS:
        entry = classes(folder).get(short)
        if entry and (not package or f"{entry.module}.".startswith(f"{package}.")):
            return entry
    return None


BASES = ("PolicyModule", "ModelModule", "EMAModule", "SoftActorCritic", "DeepQLearning")


def algorithms() -> list[Entry]:
    """The update rules: what derives, perhaps by way of another class, from RLModule."""
    return [entry for entry in children("algorithms", "RLModule") if entry.name not in BASES]


def data_modules() -> list[Entry]:
    return children("datamodules", "RLData")


def children(folder: str, root: str) -> list[Entry]:
    """Classes of a folder that derive from `root`, directly or not."""
    known = classes(folder)

    def derives(entry: Entry) -> bool:
        return root in entry.bases or any(base in known and derives(known[base]) for base in entry.bases)

    return sorted((entry for entry in known.values() if derives(entry)), key=lambda entry: entry.name)


def all_options(entry: Entry) -> list[Option]:
    """Constructor arguments of a class or, where it has no constructor, of the base that has one."""
    if entry.options:
        return list(entry.options)
    for base in entry.bases:
        parent = find(base)
        if parent and parent is not entry:
            return all_options(parent)
    return []


def _entry(node: ast.ClassDef, module: str) -> Entry:
    text = ast.get_docstring(node) or ""
    paths = [ast.unparse(base).partition("[")[0] for base in node.bases]
    bases = tuple("Optimizer" if p.startswith("torch.optim.") else p.rpartition(".")[2] for p in paths)
    summary = " ".join(text.split("\n\n", 1)[0].split())
    constructor = _constructor(node)
    is_part = None if constructor is None else bool(constructor.args.posonlyargs[1:])
    return Entry(node.name, module, bases, summary, tuple(_options(node, argument_docs(text))), is_part)


def _constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    items = (item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")
    return next(items, None)


def _options(node: ast.ClassDef, docs: dict[str, str]) -> list[Option]:
    constructor = _constructor(node)
    if constructor is not None:
        return _arguments(constructor.args, docs)
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        fields = [
            item
            for item in node.body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]
        return [
            Option(f.target.id, ast.unparse(f.annotation), _field_default(f.value), docs.get(f.target.id, ""))
            for f in fields
            if isinstance(f.target, ast.Name)
        ]
    return []


def _arguments(arguments: ast.arguments, docs: dict[str, str]) -> list[Option]:
    plain = arguments.args  # what stands before a slash, the owner of the part knows
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    defaults += arguments.defaults
    pairs = [
        *zip(plain, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return [
        Option(
            arg.arg,
            in_configs(ast.unparse(arg.annotation)) if arg.annotation else "Any",
            None if default is None else ast.unparse(default),
            docs.get(arg.arg, ""),
        )
        for arg, default in pairs
        if arg.arg != "self"
    ]


def in_configs(annotation: str) -> str:
    """What a config can give where Python may also hand over objects, and the class it names where one is made."""
    words = _IN_CONFIGS | {name: kind for name, kind in _MADE_BY.items() if name != "Network"}
    return re.sub(r"\w+", lambda match: words.get(match[0], match[0]), annotation)


def _field_default(value: ast.expr | None) -> str | None:
    """The default of a dataclass field; `field(default_factory=list)` reads as `list()`."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        for keyword in value.keywords:
            if keyword.arg == "default_factory":
                return f"{ast.unparse(keyword.value)}()".replace("list()", "[]").replace("dict()", "{}")
            if keyword.arg == "default":
                return ast.unparse(keyword.value)
        return None
    return None if value is None else ast.unparse(value)


def argument_docs(docstring: str) -> dict[str, str]:
    """The `Args:` section of a Google-style docstring: name -> text on one line."""
    from docstring_parser import DocstringStyle, parse

    params = parse(docstring, DocstringStyle.GOOGLE).params
    return {param.arg_name: " ".join((param.description or "").split()) for param in params}


def argument_names(class_path: str) -> list[str]:
    """Constructor arguments of a class, ours by source, others by signature."""
    entry = find(class_path)
    if entry:
        return [option.name for option in all_options(entry)]
    module, _, name = class_path.rpartition(".")
    try:
        # already imported by the parser, and allowed
        target: Any = getattr(importlib.import_module(module), name)
        # what a config may say
        constructor = list(inspect.signature(target.__init__).parameters.values())[1:]
        open_ended = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [p.name for p in constructor if p.kind not in open_ended]
    except (ImportError, AttributeError, ValueError, TypeError):
        return []


def takers(path: list[str], start: list[Entry]) -> list[Entry]:
    """Those of `start` that take a dotted path; below an option any class counts that its type allows."""
    return [entry for entry in start if _takes(entry, path)]


def _takes(entry: Entry, path: list[str]) -> bool:
    option = next((option for option in all_options(entry) if option.name == path[0]), None)
    if option is None or len(path) == 1:
        return option is not None
    return any(_takes(child, path[1:]) for kind in kinds_in(option.type) for child in kind_of(kind))


def kinds_in(annotation: str) -> list[str]:
    """Names of the classes of ours that an annotation speaks of; of a factory, what it makes."""
    text = re.sub(r"Callable\[\[[^]]*(?:\[[^]]*\][^]]*)*\], *", "[", annotation)
    words = [_MADE_BY.get(word, word) for word in re.findall(r"\w+", text)]
    return [word for word in words if word in _MADE_BY.values() or find(word)]


def parts_of(annotation: str) -> list[Entry]:
    """What of ours an argument may be that takes what makes a part."""
    entries = [entry for kind in kinds_in(annotation) for entry in kind_of(kind)]
    parts = {entry.name: entry for entry in entries if _is_part(entry)}
    return [parts[name] for name in sorted(parts)]


def _is_part(entry: Entry) -> bool:
    """By its constructor or, where it has none, by that of the base that has one."""
    if entry.is_part is not None:
        return entry.is_part
    parents = [parent for base in entry.bases if (parent := find(base)) is not None and parent is not entry]
    return any(map(_is_part, parents))


@functools.cache
def kind_of(root: str) -> tuple[Entry, ...]:
    """A class and all that derive from it, in every folder."""
    everything = {entry.name: entry for folder in (*FOLDERS, "kernels") for entry in classes(folder).values()}

    def derives(entry: Entry) -> bool:
        return entry.name == root or any(
            base == root or (base in everything and base != entry.name and derives(everything[base]))
            for base in entry.bases
        )

    return tuple(entry for entry in everything.values() if derives(entry) and ".kernels." not in entry.module)
