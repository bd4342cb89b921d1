"""Lines that install extras name packages of the index, and only what this Python can have."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from rl_lightning import extras

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = {k: v for k, v in PROJECT["optional-dependencies"].items() if k not in ("all", "dev")}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_line_names_every_package_of_its_extra(extra):
    line, _, _ = extras.pip_command(extra).partition(
        " && "
    )  # what follows is installed without its dependencies
    assert "rl-lightning" not in line, "it is on no index"
    for text in EXTRAS[extra]:
        need = Requirement(text)
        here = need.marker is None or need.marker.evaluate()
        assert (f"'{extras.plain(need)}'" in line) == here


def test_all_is_every_extra():
    named = re.search(r"\[(.*)\]", PROJECT["optional-dependencies"]["all"][0]).group(1).split(",")
    assert sorted(named) == sorted(EXTRAS) == sorted(extras.extra_requirements())


def test_no_python_is_asked_to_build_labmaze():
    """dm_control needs it, and it has no wheel above Python 3.12; the other dependencies are listed for those."""
    needs = [Requirement(text) for text in EXTRAS["dmc"]]
    new = [
        need.name for need in needs if need.marker is None or need.marker.evaluate({"python_version": "3.13"})
    ]
    old = [
        need.name for need in needs if need.marker is None or need.marker.evaluate({"python_version": "3.12"})
    ]
    assert "dm_control" not in new and "dm-env" in new and sorted(old) == ["dm_control", "mujoco"]


def test_newer_pythons_get_dm_control_by_itself(monkeypatch):
    bare = Requirement("dm_control>=1.0.50,<1.1")
    assert extras.plain(bare) == extras.plain(Requirement(EXTRAS["dmc"][0]))
    monkeypatch.setattr(extras, "BARE", {"dmc": [bare]})
    assert extras.pip_command("dmc").endswith(f"install --no-deps '{extras.plain(bare)}'")
    assert bare in extras.extra_requirements()["dmc"]


def test_the_pip_of_an_environment_that_is_not_activated(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert extras.pip_install("x>=1") == ".venv/bin/python -m pip install 'x>=1'"
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / ".venv"))
    assert extras.pip_install("--no-deps", "x") == "pip install --no-deps 'x'"


def test_what_a_package_asks_for_and_finds_in_another_version(monkeypatch):
    needs = ["mujoco==3.3.0", "scipy>=1", "ipdb; extra == 'testing'"]
    have = {"metaworld": "3.1.1", "mujoco": "3.17.0", "scipy": "1.9"}
    monkeypatch.setattr(extras.metadata, "requires", lambda name: needs)
    monkeypatch.setattr(extras.metadata, "version", lambda name: have[name])
    assert extras.misfit("metaworld") == "metaworld 3.1.1 needs mujoco==3.3.0, and 3.17.0 is installed"
    have["mujoco"] = "3.3.0"
    assert extras.misfit("metaworld") == ""
