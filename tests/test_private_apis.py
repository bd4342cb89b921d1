"""What the package uses of others that they call private: each name once, with the versions that it was tried in.

A use that is not in the table fails, and so does a row that nobody uses any more, a name that has gone, and a version
of pyproject.toml that the table does not know.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.metadata
import inspect
import pickle
import pkgutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import rl_lightning

ROOT = Path(rl_lightning.__file__).parent
DOCUMENTED = {"_asdict", "_fields", "_make", "_replace", "_exit"}  # public in spite of it: named tuples, os

# What was tried; pyproject.toml says the same of each.
TRIED = {
    "python": ">=3.11",
    "torch": ">=2.10,<2.14",
    "lightning": ">=2.6.6,<2.7",
    "jsonargparse": ">=4.53,<5",
    "gymnasium": ">=1.4,<1.5",
    "dm_control": ">=1.0.50,<1.1",
    "optuna": ">=5,<6",
    "crafter": ">=1.8.3,<2",
}


class Private(NamedTuple):
    """Where a private name is, and why nothing public does."""

    package: str
    home: str  # module, or module:object; the name is an attribute of it, or is set by its source
    why: str


STRATEGY, LAUNCHER = "lightning.pytorch.strategies.ddp:DDPStrategy", "lightning.pytorch.strategies.launchers."
FOREACH = "one call for all tensors; torch.optim itself has nothing else"
TRIAL = "a trial is claimed in the storage by its id, which only has this name"
CLI = "lightning.pytorch.cli:LightningCLI"
PRIVATE = {
    "_linear_pointwise": Private(
        "torch", "torch.ops:mkldnn", "a product by oneDNN; absent where it is not built in"
    ),
    "_world": Private(
        "crafter", "crafter.env:Env", "its objects must come in an order that a resumed run repeats"
    ),
    "_chunks": Private("crafter", "crafter.engine:World", "where that order is lost: sets by address"),
    "_will_engine_execute_node": Private("torch", "torch:_C", "which leaves a backward pass wants"),
    "_backward_pre_hooks": Private(
        "torch", "torch.nn:Module", "whether somebody watches a layer: then it is called as a module"
    ),
    "_backward_hooks": Private(
        "torch", "torch.nn:Module", "whether somebody watches a layer: then it is called as a module"
    ),
    "_forward_pre_hooks": Private(
        "torch", "torch.nn:Module", "whether somebody watches a layer: then it is called as a module"
    ),
    "_forward_hooks": Private(
        "torch", "torch.nn:Module", "whether somebody watches a layer: then it is called as a module"
    ),
    "_has_any_global_hook": Private(
        "torch", "torch.nn.modules.module", "hooks on every module of the process"
    ),
    "_modules": Private("torch", "torch.nn:Module", "the walk of `children` costs more than a small product"),
    "_are_functorch_transforms_active": Private(
        "torch", "torch:_C", "torch.func goes through no Function of ours"
    ),
    "_wandb_init": Private(
        "lightning",
        "lightning.pytorch.loggers:WandbLogger",
        "what W&B is begun with; an argument of it makes it warn",
    ),
    "_C": Private("torch", "torch", "holds _jit_set_onnx_log_output_stream"),
    "_SubprocessScriptLauncher": Private(
        "lightning", f"{LAUNCHER}subprocess_script", "WatchingLauncher extends it"
    ),
    "_Unpickler": Private("python", "pickle", "the one in C makes room for what a pickle claims"),
    "_call_children_scripts": Private(
        "lightning", f"{LAUNCHER}subprocess_script:_SubprocessScriptLauncher", "processes that are watched"
    ),
    "_checkpoint_connector": Private(
        "lightning",
        "lightning.pytorch:Trainer",
        "the dict of a checkpoint; save_checkpoint only writes files",
    ),
    "_common": Private("jsonargparse", "jsonargparse", "parsing settings have a setter and no getter"),
    "_configure_launcher": Private("lightning", STRATEGY, "which launcher a strategy takes"),
    "_dump_config": Private("lightning", CLI, "secrets are taken out of what every checkpoint holds"),
    "_every_n_train_steps": Private(
        "lightning", "lightning.pytorch.callbacks:ModelCheckpoint", "has no getter"
    ),
    "_find_last_checkpoints": Private(
        "lightning", "lightning.pytorch.callbacks:ModelCheckpoint", 'ckpt_path="last" asks it'
    ),
    "_foreach_add_": Private("torch", "torch", FOREACH),
    "_foreach_addcmul_": Private("torch", "torch", FOREACH),
    "_foreach_clamp_min": Private("torch", "torch", FOREACH),
    "_foreach_div": Private("torch", "torch", FOREACH),
    "_foreach_lerp_": Private("torch", "torch", FOREACH),
    "_foreach_mul_": Private("torch", "torch", FOREACH),
    "_foreach_norm": Private("torch", "torch", FOREACH),
    "_foreach_sqrt_": Private("torch", "torch", FOREACH),
    "_fused_adam_": Private("torch", "torch", "torch.optim.Adam around it costs more than the step itself"),
    "_init_group": Private("torch", "torch.optim:Adafactor", "the state that torch's own step would make"),
    "_jit_set_onnx_log_output_stream": Private(
        "torch", "torch:_C", "the exporter's lines come from below Python"
    ),
    "_launcher": Private("lightning", STRATEGY, "replaced by one that watches"),
    "_load_from_state_dict": Private(
        "torch", "torch.nn:Module", "buffers take the shape that a checkpoint has"
    ),
    "_max_episode_steps": Private(
        "gymnasium", "gymnasium.wrappers:TimeLimit", "its spec is empty where the env below has none"
    ),
    "_np_random": Private("gymnasium", "gymnasium:Env", "the public setter forgets the seed"),
    "_parameters": Private("torch", "torch.nn:Module", "a tensor in a parameter's place"),
    "_parse_ckpt_path": Private("lightning", CLI, "a checkpoint's arguments would beat the command line"),
    "_random": Private("dm_control", "dm_control.suite.base:Task", "its property has no setter"),
    "_reload_from_data": Private("dm_control", "dm_control.mujoco:Physics", "what makes a Physics one"),
    "_render": Private("gymnasium", "gymnasium.envs.box2d.car_racing:CarRacing", "a frame of another size"),
    "_set_num_threads_if_needed": Private(
        "lightning", "lightning.fabric.utilities.distributed", "as Lightning's own launcher does"
    ),
    "_set_seed": Private("lightning", CLI, "seeds are set right before weights are drawn"),
    "_step_limit": Private("dm_control", "dm_control.rl.control:Environment", "has no getter"),
    "_train_time_interval": Private(
        "lightning", "lightning.pytorch.callbacks:ModelCheckpoint", "has no getter"
    ),
    "_trainer": Private(
        "lightning", "lightning.pytorch:LightningModule", "the public one raises without a Trainer"
    ),
    "_trial_id": Private("optuna", "optuna.trial:FrozenTrial", TRIAL),
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in DOCUMENTED and name != "_"


def names_of_ours(trees: dict[str, ast.Module]) -> set[str]:
    """Private names that the package gives to its own functions, classes, modules, attributes and variables."""
    ours: set[str] = {Path(path).stem for path in trees}
    for tree in trees.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                ours.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                ours.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                ours |= (
                    {node.attr}
                    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                    else set()
                )
    return ours


def foreign_in(tree: ast.Module, ours: set[str]) -> Iterator[tuple[str, int]]:
    """Private names of others that a module names: imported, as an attribute, or as a text that stands for one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] != "rl_lightning":
            words = [alias.name for alias in node.names] + (node.module or "").split(".")
            yield from ((word, node.lineno) for word in words if is_private(word))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if node.attr not in ours:
                yield node.attr, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "getattr",
            "setattr",
            "hasattr",
            "delattr",
        ):
            text = node.args[1].value if isinstance(node.args[1], ast.Constant) else ""
            if is_private(str(text)) and text not in ours:
                yield str(text), node.lineno
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value).startswith("vars("):
            text = node.slice.value if isinstance(node.slice, ast.Constant) else ""
            if is_private(str(text)) and text not in ours:
                yield str(text), node.lineno


class OwnClass(NamedTuple):
    """A class of the package, as its text says."""

    methods: list[tuple[str, int]]
    bases: list[str]
    imported: dict[str, str]  # a word of its module -> what it stands for


def own_classes(trees: dict[str, ast.Module]) -> dict[str, tuple[str, OwnClass]]:
    found = {}
    for path, tree in trees.items():
        imported = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    imported[alias.asname or first] = alias.name if alias.asname else first
            elif isinstance(node, ast.ImportFrom):
                imported |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                methods = [
                    (item.name, item.lineno) for item in node.body if isinstance(item, ast.FunctionDef)
                ]
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                found[node.name] = path, OwnClass(methods, bases, imported)
    return found


def foreign_bases(name: str, classes: dict[str, tuple[str, OwnClass]]) -> Iterator[type]:
    """The classes of others that one of ours derives from, however far up."""
    for base in classes[name][1].bases:
        first, _, rest = base.partition(".")
        if base in classes:
            yield from foreign_bases(base, classes)
        elif (whole := classes[name][1].imported.get(first)) and not whole.startswith("rl_lightning"):
            with contextlib.suppress(ImportError):  # of an extra that is not installed
                yield pkgutil.resolve_name(f"{whole}.{rest}" if rest else whole)


def overridden(trees: dict[str, ast.Module]) -> Iterator[tuple[str, str]]:
    """Private methods of a foreign base that a class of ours defines again."""
    classes = own_classes(trees)
    for name, (path, own) in classes.items():
        for method, line in own.methods:
            if is_private(method) and any(hasattr(base, method) for base in foreign_bases(name, classes)):
                yield method, f"{path}:{line}"


@pytest.fixture(scope="module")
def used() -> dict[str, list[str]]:
    """Every private name of others -> where it is used."""
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}
    places: dict[str, list[str]] = {}
    ours = names_of_ours(trees)
    for path, tree in trees.items():
        for name, line in foreign_in(tree, ours - set(PRIVATE)):
            places.setdefault(name, []).append(f"{path}:{line}")
    for name, where in overridden(trees):
        places.setdefault(name, []).append(where)
    return places


def test_every_use_is_in_the_table_and_every_row_is_used(used):
    unknown = {name: places for name, places in used.items() if name not in PRIVATE}
    assert not unknown, "use something public, or add a row that says why there is nothing"
    assert not PRIVATE.keys() - used.keys(), "nobody uses these any more"


def home_of(row: Private) -> Any:
    module, _, name = row.home.partition(":")
    if row.package != "python":
        pytest.importorskip(module.split(".")[0])
    home = importlib.import_module(module)
    return getattr(home, name) if name else home


@pytest.mark.parametrize("name", PRIVATE)
def test_the_name_is_still_there(name):
    home = home_of(PRIVATE[name])
    if hasattr(home, name) or name in getattr(home, "__annotations__", {}):
        return
    assert f"self.{name}" in inspect.getsource(home), f"{PRIVATE[name].home} has no {name} any more"


def declared() -> dict[str, SpecifierSet]:
    project = tomllib.loads((ROOT.parent / "pyproject.toml").read_text())["project"]
    lines = project["dependencies"] + [
        line for extra in project["optional-dependencies"].values() for line in extra
    ]
    return {req.name: req.specifier for req in map(Requirement, lines) if req.specifier} | {
        "python": SpecifierSet(project["requires-python"])
    }


@pytest.mark.parametrize("package", TRIED)
def test_the_versions_are_those_that_were_tried(package):
    assert declared()[package] == SpecifierSet(TRIED[package]), (
        "try the new versions, then write them down here"
    )
    if package == "python":
        version = ".".join(map(str, sys.version_info[:3]))
    else:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed here")
    assert SpecifierSet(TRIED[package]).contains(version), version


def test_each_row_is_of_a_package_that_was_tried():
    assert {row.package for row in PRIVATE.values()} == TRIED.keys() and all(
        row.why for row in PRIVATE.values()
    )
    assert pickle._Unpickler is not pickle.Unpickler  # the one in Python
