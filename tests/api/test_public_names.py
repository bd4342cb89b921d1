"""What a package offers by name is there, says what it is, and is all that a user would look for."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import get_origin

import pytest

import rl_lightning
from rl_lightning.runs.config.catalog import algorithms, data_modules

PACKAGES = [
    name
    for _, name, is_package in pkgutil.walk_packages(rl_lightning.__path__, "rl_lightning.")
    if is_package
]
OFFERING = ["rl_lightning", *(name for name in PACKAGES if hasattr(importlib.import_module(name), "__all__"))]


def test_the_packages_that_users_import_from_say_what_they_offer():
    wanted = {"algorithms", "datamodules", "callbacks", "envs", "nn", "optim", "replay", "datasets"}
    assert {f"rl_lightning.{name}" for name in wanted} <= set(OFFERING)


@pytest.mark.parametrize("package", OFFERING)
def test_every_public_name_has_a_docstring_of_its_own(package):
    module = importlib.import_module(package)
    assert module.__doc__
    for name in module.__all__:
        value = getattr(module, name)
        if name == "__version__":
            assert value[0].isdigit()
            continue
        if get_origin(value) is Callable:  # a type; what it is for stands above it
            continue
        own = vars(value).get("__doc__") if isinstance(value, type) else inspect.getdoc(value)
        assert own, f"{package}.{name}"
        assert not own.startswith(f"{name}("), f"{package}.{name} has the docstring that dataclasses write"


@pytest.mark.parametrize("package", OFFERING)
def test_names_are_sorted_as_ruff_sorts_them_and_occur_once(package):
    names = importlib.import_module(package).__all__
    assert len(set(names)) == len(names)


def test_algorithms_and_data_modules_are_all_offered():
    """Bases that are only there to be built upon are not."""
    offered = importlib.import_module("rl_lightning.algorithms").__all__
    assert {entry.name for entry in algorithms()} <= set(offered)
    offered = importlib.import_module("rl_lightning.datamodules").__all__
    bases = {"EnvData", "EvaluatedData", "EvalEnvData", "ReplayData", "FrameData", "SimulatedEnvMixin"}
    assert {entry.name for entry in data_modules()} - bases <= set(offered)


@pytest.mark.parametrize("name", ["fit", "resume", "load", "find", "compare"])
def test_every_argument_is_described(name):
    function = getattr(rl_lightning, name)
    documented = function.__doc__.partition("Args:")[2]
    for argument in inspect.signature(function).parameters:
        assert f"{argument}:" in documented, argument


def test_what_is_returned_shows_itself():
    for name in ("TrainedRun", "TrainedRuns", "LoadedPolicy"):
        assert "__repr__" in vars(getattr(rl_lightning, name)), name
